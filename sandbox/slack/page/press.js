// While a button of the mouse is down nothing that may be under it is drawn anew: a click is lost when its element goes.

const waiting = new Set();
let pressed = false;

/** Runs `draw` now, or as soon as nothing is pressed any more; however often it was asked for meanwhile, once. */
export function unpressed(draw) {
  if (pressed) waiting.add(draw);
  else draw();
}

/** A click follows its release in the same turn, so what waits is drawn in the next. */
function release() {
  if (!pressed) return;
  setTimeout(() => {
    pressed = false;
    const due = [...waiting];
    waiting.clear();
    for (const draw of due) draw();
  });
}

window.addEventListener("pointerdown", (event) => { pressed = event.button === 0; }, true);
window.addEventListener("pointerup", release, true);
window.addEventListener("pointercancel", release, true);
window.addEventListener("blur", release);
// The list of a select, or another window, may have taken the release.
window.addEventListener("pointermove", (event) => { if (!event.buttons) release(); }, true);
