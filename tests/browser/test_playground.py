"""The page of examples/playground in a browser: its pixels and positions equal those of PyTorch."""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib
import json
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import looking
import numpy as np
import pytest
import shared
import torch
import torch.nn.functional as F
import warm
from chromium_process import OPTIONS, started
from example_demos import super_resolution
from PIL import Image
from programs import run, tool

EXAMPLES = Path(__file__).parents[2] / "examples"
PLAYGROUND = EXAMPLES / "playground"
FACE = (172, 70)  # left and top of what is enlarged first, 128 pixels each way

# One step of 255: the standard operators of a function body round coordinates in their own way.
PIXEL_BOUND, MOST_STEPS = 1, 0.005
# Pixels of a layer's input, a share, a score: two runtimes add up in different orders.
POSITION_BOUND, SCORE_BOUND = 1e-3, 1e-3


def modules(example: str, *names: str) -> list[ModuleType]:
    """Modules of an example, imported as its scripts import each other."""
    before = {name: sys.modules.pop(name, None) for name in ("data", "model", "sampling", "demo")}
    sys.path.insert(0, str(EXAMPLES / example))
    try:
        return [importlib.import_module(name) for name in names]
    finally:
        sys.path.pop(0)
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


def make(demo: Path, folder: Path) -> None:
    """Builds the page from the files of `make demo`: folder/models, folder/page."""
    words = ("--demo", demo, "--output", folder / "models")
    done = warm.run(PLAYGROUND / "models.py", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    run(tool("node"), PLAYGROUND / "build.mjs", folder / "models", folder / "page")


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of `make demo`."""
    pytest.importorskip("skimage", reason="the photographs are of the extra examples")
    return super_resolution(tmp_path_factory)[1]


@pytest.fixture(scope="session")
def built(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    tool("node")
    if not (PLAYGROUND / "node_modules" / "onnxruntime-web").is_dir():
        pytest.skip(f"no packages in {PLAYGROUND}; `npm ci --ignore-scripts` there gets them")
    return shared.once(tmp_path_factory, "playground", partial(make, demo))


def wait(driver: Any, condition: str, *arguments: Any) -> Any:
    """Waits until an expression in JavaScript is true, and returns its value."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(driver, 90, 0.1).until(
        lambda _: driver.execute_script(f"return {condition}", *arguments)
    )


@pytest.fixture
def page(built: Path, show: Callable[..., Any]) -> Any:
    """The page, opened as a file, when both parts have a result."""
    driver = show(built / "page" / "index.html")
    wait(driver, "playground.enlarge.last && playground.digits.last")
    return driver


def enlarged(driver: Any, factor: float) -> dict[str, Any]:
    """Moves the slider; the pixels of both pictures, from the canvases that are seen."""
    driver.execute_script(
        "const input = document.getElementById('factor'); input.value = arguments[0];"
        "input.dispatchEvent(new Event('input'));", factor,
    )  # fmt: skip
    wait(driver, "playground.enlarge.last.factor === arguments[0]", factor)
    found: dict[str, Any] = {"status": driver.find_element("id", "status").text}
    for name in ("ours", "bicubic"):
        width, height, text = driver.execute_script(
            """
            const canvas = document.getElementById(arguments[0]);
            const {width, height} = canvas;
            const {data} = canvas.getContext('2d').getImageData(0, 0, width, height);
            let text = '';
            for (let start = 0; start < data.length; start += 8192) {
              text += String.fromCharCode(...data.subarray(start, start + 8192));
            }
            return [width, height, btoa(text)];
            """, name,
        )  # fmt: skip
        pixels = np.frombuffer(base64.b64decode(text), np.uint8).reshape(height, width, 4)
        assert (pixels[..., 3] == 255).all()
        found[name] = pixels[..., :3]
    return found


def assert_pixels(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.shape == expected.shape
    steps = np.abs(found.astype(int) - expected)
    assert steps.max() <= PIXEL_BOUND
    assert (steps > 0).mean() <= MOST_STEPS
    assert expected.std() > 10  # not an empty picture


@torch.no_grad()
def in_pytorch(picture: np.ndarray, factor: float) -> dict[str, np.ndarray]:
    data, model = modules("super_resolution", "data", "model")
    inputs, scales = data.to_tensor(picture), data.to_scales(factor)
    both = (scales[2].item(), scales[3].item())
    bicubic = F.interpolate(inputs, scale_factor=both, mode="bicubic")
    return {
        "ours": data.to_picture(model.load()(inputs, scales).numpy()),
        "bicubic": data.to_picture(bicubic.numpy()),
    }


def test_the_model_is_the_file_of_the_demo(page: Any, demo: Path, built: Path) -> None:
    expected = (demo / "super_resolution.onnx").read_bytes()
    assert (built / "page" / "super_resolution.onnx").read_bytes() == expected
    digest = hashlib.sha256(expected).hexdigest()
    assert page.execute_script("return playground.about('super_resolution.onnx').sha256") == digest
    assert digest[:12] in page.find_element("id", "model").text
    # The page runs the contents of the script with the file.
    text = (built / "page" / "assets" / "super_resolution.onnx.js").read_text()
    assert gzip.decompress(base64.b64decode(text.split('"')[3])) == expected


def test_pixels_equal_pytorch(page: Any) -> None:
    (data,) = modules("super_resolution", "data")
    left, top = FACE
    part = data.photograph(data.HELD_OUT)[top : top + 128, left : left + 128]
    for factor in (1.37, 2.5, 4):
        found, expected = enlarged(page, factor), in_pytorch(part, factor)
        for name in ("ours", "bicubic"):
            assert_pixels(found[name], expected[name])
        assert (found["ours"] != found["bicubic"]).mean() > 0.2
        side = int(np.floor(128 * np.float32(factor)))
        assert f"{side} \u00d7 {side} pixels" in found["status"]
        assert "ms" in found["status"] or " s" in found["status"]


def test_a_photograph_of_the_user_is_enlarged(page: Any, tmp_path: Path) -> None:
    """A photograph smaller than the enlarged part and not square, chosen in the dialog and
    dropped."""
    rows, columns = np.mgrid[:40, :57]
    pixels = np.stack([rows * 6, columns * 4, (rows * columns) % 256], axis=2).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "own.png")
    page.find_element("id", "file").send_keys(str(tmp_path / "own.png"))
    wait(page, "playground.enlarge.last.name === 'own.png'")
    found, expected = enlarged(page, 1.75), in_pytorch(pixels, 1.75)
    for name in ("ours", "bicubic"):
        assert_pixels(found[name], expected[name])

    text = base64.b64encode((tmp_path / "own.png").read_bytes()).decode()
    page.execute_script(
        """
        const bytes = Uint8Array.from(atob(arguments[0]), item => item.charCodeAt(0));
        const transfer = new DataTransfer();
        transfer.items.add(new File([bytes], 'dropped.png', {type: 'image/png'}));
        document.querySelector('h2').dispatchEvent(new DragEvent('drop', {
          dataTransfer: transfer, bubbles: true, cancelable: true}));
        """, text,
    )  # fmt: skip
    wait(page, "playground.enlarge.last.name === 'dropped.png'")

    (tmp_path / "notes.txt").write_text("not a picture")
    page.find_element("id", "file").send_keys(str(tmp_path / "notes.txt"))
    wait(page, "document.querySelector('#status.failed')")
    assert "notes.txt: not a picture" in page.find_element("id", "status").text
    assert enlarged(page, 2.0)["ours"].shape == (80, 114, 3)  # the picture before is still there


@torch.no_grad()
def test_sampling_points_equal_pytorch(page: Any) -> None:
    data, model, sampling = modules("deformable_digits", "data", "model", "sampling")
    network = model.load()["deformable"]
    for digit, side, degrees in ((3, 18.0, 0.0), (7, 25.0, -48.0), (5, 11.5, 60.0)):
        page.execute_script(
            """
            for (const [id, value] of Object.entries(arguments[0])) {
              document.getElementById(id).value = value;
            }
            document.getElementById('side').dispatchEvent(new Event('input'));
            """, {"digit": str(digit), "side": side, "degrees": degrees},
        )  # fmt: skip
        wait(page, "playground.digits.last.placed.degrees === arguments[0]"
             " && playground.digits.last.digit === arguments[1]", degrees, digit)  # fmt: skip
        last = page.execute_script(
            """
            const {image, scores, picture, pixels, seen} = playground.digits.last;
            return {image, scores: [...scores], picture: [...picture], pixels,
                    seen: seen.map(taps => taps.map(tap => [tap.y, tap.x, tap.weight]))};
            """
        )
        image = torch.tensor(last["image"]).reshape(1, 1, 8, 8) / 16
        placed = torch.tensor([side]), torch.tensor([degrees]), torch.zeros(1, 2)
        picture = data.place(image, *placed)
        np.testing.assert_allclose(last["picture"], picture.flatten(), atol=1e-5)
        expected = network(picture)[0]
        np.testing.assert_allclose(last["scores"], expected, atol=SCORE_BOUND, rtol=SCORE_BOUND)
        second, third = sampling.taps_of_both(network, picture)
        for number, point in enumerate(sampling._POINTS):
            pixel = sampling.output_pixel(point, side, degrees)
            assert tuple(last["pixels"][number]) == pixel
            positions, weight = sampling.through_both(second, third, *pixel)
            found = np.array(last["seen"][number])
            assert len(found) > 20
            np.testing.assert_allclose(found[:, :2], positions, atol=POSITION_BOUND)
            np.testing.assert_allclose(found[:, 2], weight, atol=POSITION_BOUND)
        answer = f"reads {int(expected.argmax())}, the digit is {digit}"
        assert answer in page.find_element("id", "digits-status").text


def test_the_digit_is_moved_and_drawn(page: Any) -> None:
    from selenium.webdriver import ActionChains, Keys

    drawn = "return document.getElementById('sampling').toDataURL()"
    pictures = [page.execute_script(drawn)]
    page.find_element("id", "sampling").click()  # its middle
    wait(page, "playground.digits.last.placed.centre.every(value => Math.abs(value) < 1)")
    ActionChains(page).send_keys(Keys.ARROW_RIGHT * 3).perform()
    wait(page, "playground.digits.last.placed.centre[0] >= 2")
    pictures.append(page.execute_script(drawn))
    for choice in page.find_elements("name", "shown")[1:]:
        choice.click()
        pictures.append(page.execute_script(drawn))
    assert len(set(pictures)) == 4
    page.find_element("id", "turn").click()
    wait(page, "playground.digits.last.placed.degrees > 5")
    page.find_element("id", "turn").click()


def test_every_control_is_reachable_by_keyboard(page: Any) -> None:
    from selenium.webdriver import ActionChains, Keys

    stops = [name for _, name in looking.tab_stops(page)]
    ids = page.execute_script(
        "return Array.from(document.querySelectorAll('button, input, select, canvas[tabindex], a'))"
        ".filter(item => !item.disabled && item.name !== 'shown').length"
    )
    assert len(stops) == ids + 1  # of radio buttons, the one that is chosen
    before = page.execute_script("return playground.enlarge.last.factor")
    page.execute_script("document.getElementById('factor').focus()")
    ActionChains(page).send_keys(Keys.ARROW_RIGHT * 5).perform()
    wait(page, "Math.abs(playground.enlarge.last.factor - arguments[0] - 0.05) < 1e-9", before)
    assert page.find_element("id", "factor-number").get_attribute("value") == "2.55"
    page.execute_script("document.getElementById('overview').focus()")
    ActionChains(page).send_keys(Keys.ARROW_LEFT).perform()
    wait(page, "playground.enlarge.last.corner[0] === arguments[0]", FACE[0] - 16)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1400])
def test_the_page_fits_and_is_legible(
    built: Path, show: Callable[..., Any], width: int, scheme: str
) -> None:
    driver = show(built / "page" / "index.html", width, scheme)
    wait(driver, "playground.enlarge.last && playground.digits.last")
    whole, shown = looking.widths(driver)
    assert whole <= shown <= width
    assert looking.strays(driver) == []
    worst, text = looking.contrasts(driver)[0]
    assert worst >= 4.5, text
    for name in ("overview", "ours", "bicubic", "sampling"):
        canvas = driver.find_element("id", name)
        size = canvas.size
        assert size["width"] > 60
        drawn = driver.execute_script("return [arguments[0].width, arguments[0].height]", canvas)
        assert size["width"] / size["height"] == pytest.approx(drawn[0] / drawn[1], rel=0.02)


@pytest.fixture(scope="module")
def with_gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser whose WebGPU is computed by the CPU."""
    options = [item for item in OPTIONS if item != "--disable-gpu"]
    options += ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"]
    yield from started(options, tmp_path_factory.mktemp("chromium"))


def test_pixels_on_webgpu_equal_pytorch(built: Path, with_gpu: Any, tmp_path: Path) -> None:
    """A few pixels only: without a GPU this takes a second for each thousand."""
    driver = with_gpu
    driver.get((built / "page" / "index.html").as_uri())
    wait(driver, "playground.enlarge.last && playground.digits.last")
    option = "document.querySelector('#backend [value=webgpu]')"
    wait(driver, f"{option}.disabled === false || {option}.textContent.includes('none')")
    if driver.execute_script(f"return {option}.disabled"):
        pytest.skip("this Chromium has no WebGPU")
    pixels = np.random.default_rng(0).integers(0, 256, (20, 24, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "few.png")
    driver.find_element("id", "file").send_keys(str(tmp_path / "few.png"))
    wait(driver, "playground.enlarge.last.name === 'few.png'")
    driver.execute_script("""
        const backend = document.getElementById('backend');
        backend.value = 'webgpu';
        backend.dispatchEvent(new Event('change'));
    """)
    wait(driver, "playground.enlarge.last.backend === 'webgpu'")
    found, expected = enlarged(driver, 1.6), in_pytorch(pixels, 1.6)
    for name in ("ours", "bicubic"):
        assert_pixels(found[name], expected[name])
    assert "GPU (WebGPU)" in found["status"]


class _Asked(SimpleHTTPRequestHandler):
    paths: list[str]

    def do_GET(self) -> None:
        self.paths.append(self.path)
        super().do_GET()

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def server(built: Path) -> Iterator[tuple[str, list[str]]]:
    """A server of this machine for the page; its address, and the paths that it is asked for."""
    handler = type("Handler", (_Asked,), {"paths": []})
    bound = partial(handler, directory=str(built / "page"))
    with ThreadingHTTPServer(("127.0.0.1", 0), bound) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{found.server_port}", handler.paths
        found.shutdown()


def test_the_page_loads_only_its_own_files(chromium: Any, server: tuple[str, list[str]]) -> None:
    """It requests only its own files, and those for the GPU only if there is one."""
    address, paths = server
    chromium.get_log("browser")
    chromium.get(f"{address}/index.html")
    wait(chromium, "playground.enlarge.last && playground.digits.last")
    adapter = chromium.execute_async_script(
        "const done = arguments[0];"
        "(navigator.gpu?.requestAdapter() ?? Promise.resolve(null)).then(item => done(!!item))"
    )
    assert {path for path in paths if "webgpu" in path} == set() or adapter
    assert len(paths) == len(set(paths))  # each once
    asked = chromium.execute_script(
        "return performance.getEntriesByType('resource').map(item => item.name)"
    )
    assert all(name.startswith((address, "blob:", "data:")) for name in asked), asked
    severe = [item for item in chromium.get_log("browser") if item["level"] == "SEVERE"]
    assert severe == []


def test_the_lock_file_pins_everything() -> None:
    lock = json.loads((PLAYGROUND / "package-lock.json").read_text())
    project = json.loads((PLAYGROUND / "package.json").read_text())
    packages = {name: item for name, item in lock["packages"].items() if name}
    wanted = project["dependencies"] | project["devDependencies"]
    for name, version in wanted.items():
        assert packages[f"node_modules/{name}"]["version"] == version
    for name, item in packages.items():
        assert "integrity" in item, name
        assert "resolved" not in item, name  # no index by its address
