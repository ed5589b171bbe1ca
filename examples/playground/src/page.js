// What both models on the page need.

export const find = (id) => document.getElementById(id);

/** Says something in the line `id`. */
export function say(id, text, failed = false) {
  find(id).textContent = text;
  find(id).classList.toggle("failed", failed);
}

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** Calls `toPointer(x, y, box)` with the place in the canvas, in pixels of the page as its `box` is,
    while a pointer drags in it, and `byArrow([right, down], event)` for the arrow keys. */
export function onMoves(canvas, toPointer, byArrow) {
  const moved = (event) => {
    const box = canvas.getBoundingClientRect();
    toPointer(event.clientX - box.left, event.clientY - box.top, box);
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    moved(event);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (canvas.hasPointerCapture(event.pointerId)) moved(event);
  });
  canvas.addEventListener("keydown", (event) => {
    const move = ARROWS[event.key];
    if (!move) return;
    event.preventDefault();
    byArrow(move, event);
  });
}
