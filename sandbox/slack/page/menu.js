// A button that opens a menu: arrow keys, Home, End, Escape; focus returns to the button.

import { freshId, h } from "./dom.js";

/** `items`: [{label, run(button)}]; `content` is what the button shows, `label` its name. */
export function menuButton({ label, key, content, items, className = "icon-button", grid = false }) {
  const id = freshId("menu");
  const button = h("button", { type: "button", class: className, "aria-label": label, title: label, "aria-haspopup": "menu", "aria-expanded": "false", "data-key": key }, content);
  const box = h("span", { class: "menu-anchor" }, button);
  let menu = null;

  function close(refocus) {
    if (!menu) return;
    menu.remove();
    menu = null;
    button.setAttribute("aria-expanded", "false");
    button.removeAttribute("aria-controls");
    document.removeEventListener("pointerdown", outside, true);
    if (refocus) button.focus();
  }

  function outside(event) {
    if (!box.contains(event.target)) close(false);
  }

  function open() {
    menu = h("div", { id, class: `menu${grid ? " menu-grid" : ""}`, role: "menu", "aria-label": label }, items.map((item) =>
      h("button", { type: "button", role: "menuitem", tabindex: "-1", "aria-label": item.name, on: { click: () => { close(true); item.run(button); } } }, item.label)));
    const place = button.getBoundingClientRect();
    if (place.top > window.innerHeight / 2) menu.classList.add("up");
    if (place.left < window.innerWidth / 2) menu.classList.add("from-left");
    box.append(menu);
    button.setAttribute("aria-expanded", "true");
    button.setAttribute("aria-controls", id);
    document.addEventListener("pointerdown", outside, true);
    menu.firstChild?.focus();
  }

  button.addEventListener("click", () => (menu ? close(true) : open()));
  box.addEventListener("keydown", (event) => {
    if (!menu) return;
    const all = [...menu.children];
    const at = all.indexOf(document.activeElement);
    const next = { ArrowDown: at + 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (next !== undefined) {
      event.preventDefault();
      all[(next + all.length) % all.length].focus();
    } else if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      close(true);
    } else if (event.key === "Tab") {
      close(false);
    }
  });
  return box;
}
