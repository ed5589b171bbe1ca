"""Runs a step of the Makefile that takes minutes, and says what it is doing and for how long.

    python3 scripts/step.py "compile the libraries (3 minutes)" COMMAND ARGUMENT...

In a terminal one line is kept up to date; elsewhere there is a line every half minute. What the
command prints is shown when it fails, and warnings always. Its exit status is passed on. (It needs
no package, as it runs before there is any.)
"""

import re
import subprocess
import sys
import threading
import time

EVERY = 30.0  # seconds between lines where nobody can see one line change

# Lines of pip and ninja that show the progress of the command.
SIGNS = [
    (re.compile(r"\[(\d+/\d+)\] "), "compiled {}"),
    (re.compile(r"^\s*Collecting ([\w.-]+)"), "looking up {}"),
    (re.compile(r"^\s*Downloading \S*/?([\w.-]+\.(?:whl|tar\.gz)\S*.*)"), "downloading {}"),
    (re.compile(r"^Installing collected packages"), "unpacking"),
]


class Status:
    """Shows the progress, from another thread than the one that reads."""

    def __init__(self, title: str) -> None:
        self.title, self.doing = title, ""
        self.start = self.last = time.monotonic()
        self.live = sys.stderr.isatty()
        self.over = threading.Event()
        print(f"myops: {title}", file=sys.stderr, flush=True)

    def elapsed(self) -> str:
        minutes, seconds = divmod(round(time.monotonic() - self.start), 60)
        return f"{minutes}:{seconds:02}"

    def tell(self) -> None:
        text = f"myops:   {self.elapsed()} {self.doing}"
        if self.live:
            print(f"\r\x1b[K{text[:100]}", end="", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)

    def run(self) -> None:
        while not self.over.wait(1.0 if self.live else EVERY):
            self.tell()

    def end(self, word: str) -> None:
        self.over.set()
        if self.live:
            print("\r\x1b[K", end="", file=sys.stderr)
        print(f"myops:   {word} after {self.elapsed()} (minutes:seconds)", file=sys.stderr)


def main() -> int:
    title, *command = sys.argv[1:]
    status = Status(title)
    threading.Thread(target=status.run, daemon=True).start()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        for sign, text in SIGNS:
            found = sign.search(line)
            if found is not None:
                status.doing = text.format(*found.groups())
    failed = process.wait()
    status.end("failed" if failed else "done")
    shown = lines if failed else [line for line in lines if "warning:" in line.lower()]
    sys.stderr.writelines(shown)
    return failed


if __name__ == "__main__":
    sys.exit(main())
