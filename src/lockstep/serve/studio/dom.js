// Elements from plain calls: text is always text, so nothing that a person or a model wrote can become markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element: `on…` are listeners; `class`, `role`, `aria-…`, `data-…` attributes; the rest are properties. */
export function h(name, given = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(given)) {
    if (value === undefined || value === null) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "class") made.className = value;
    else if (key === "css") Object.entries(value).forEach(([rule, to]) => made.style.setProperty(rule, to));
    else if (/^(aria-|data-|role$|for$|list$|colspan$|rowspan$|tabindex$|inputmode$)/.test(key))
      made.setAttribute(key, value);
    else made[key] = value;
  }
  return put(made, children);
}

/** An element of a drawing. */
export function svg(name, given = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(given)) if (value !== undefined) made.setAttribute(key, value);
  return put(made, children);
}

function put(parent, children) {
  for (const child of [children].flat(9))
    if (child !== null && child !== undefined && child !== false) parent.append(child);
  return parent;
}

/** What is inside a parent, from now on. */
export function fill(parent, ...children) {
  parent.replaceChildren();
  return put(parent, children);
}

/** Children that follow a list: kept where the key is known, made where it is new, moved only where they must. */
export function follow(parent, items, key, make, update) {
  const held = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let next = parent.firstElementChild;
  for (const item of items) {
    const name = String(key(item));
    let child = held.get(name);
    if (child) held.delete(name);
    else {
      child = make(item);
      child.dataset.key = name;
    }
    update?.(child, item);
    if (child === next) next = next.nextElementSibling;
    else parent.insertBefore(child, next);
  }
  for (const gone of held.values()) gone.remove();
}

const ICONS = {
  spark: "M12 3v4M12 17v4M3 12h4M17 12h4M6 6l2.5 2.5M15.5 15.5 18 18M18 6l-2.5 2.5M8.5 15.5 6 18",
  close: "M6 6l12 12M18 6 6 18",
  star: "M12 4l2.5 5.1 5.5.8-4 3.9 1 5.5-5-2.6-5 2.6 1-5.5-4-3.9 5.5-.8z",
  down: "M12 4v11M7 11l5 5 5-5M5 20h14",
  again: "M4 12a8 8 0 1 0 2.5-5.8M4 4v4.5h4.5",
  split: "M12 3v18M4 6h5v12H4zM15 6h5v12h-5z",
  brush: "M14 4l6 6-8 8c-2 2-6 2-8 2 1-1 1-3 2-5zM12 6l6 6",
  image: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15 9.5a.5.5 0 1 0 .01 0",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  dice: "M5 5h14v14H5zM9 9h.01M15 9h.01M12 12h.01M9 15h.01M15 15h.01",
  undo: "M8 5 4 9l4 4M4 9h10a6 6 0 0 1 0 12h-3",
  redo: "M16 5l4 4-4 4M20 9H10a6 6 0 0 0 0 12h3",
  up: "M12 20V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  play: "M8 5l11 7-11 7z",
  next: "M5 5l9 7-9 7zM18 5v14",
  left: "M15 5l-7 7 7 7",
  right: "M9 5l7 7-7 7",
  swap: "M7 4 3 8l4 4M3 8h14M17 12l4 4-4 4M21 16H7",
  blocks: "M4 4h7v7H4zM13 13h7v7h-7zM7.5 11v5.5H13",
  plus: "M12 5v14M5 12h14",
  info: "M12 3a9 9 0 1 0 .01 0M12 11v5M12 8h.01",
  warn: "M12 4 2.5 20h19zM12 10v4M12 17h.01",
  check: "M4 12.5l5 5L20 6.5",
  open: "M14 4h6v6M20 4l-9 9M18 14v6H4V6h6",
};

export function icon(name) {
  return svg(
    "svg",
    { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true", focusable: "false" },
    svg("path", { d: ICONS[name] }),
  );
}

/** A button: a picture alone has its name for screen readers and as a tip. */
export function button(name, pressed, { label, kind = "", ...more } = {}) {
  const shows = label ?? "";
  return h(
    "button",
    {
      type: "button",
      class: `button ${kind} ${shows ? "" : "bare"}`.trim(),
      onclick: pressed,
      ...more,
      ...(shows ? {} : { "aria-label": more.title, title: more.title }),
    },
    name && icon(name),
    shows && h("span", {}, shows),
  );
}

/** A form: its button is pressed, or Enter in one of its fields. */
export function form(kind, label, submitted) {
  const submit = (event) => {
    event.preventDefault();
    submitted();
  };
  return h("form", { class: kind, "aria-label": label, onsubmit: submit });
}

let numbered = 0;
export const newId = (stem) => `${stem}-${++numbered}`;

/** A short message that goes away; an action gives it a button. */
export function toast(text, { kind = "", action, seconds = 5 } = {}) {
  const made = h("div", { class: `toast ${kind}` }, h("span", {}, text));
  const gone = () => made.remove();
  const timer = setTimeout(gone, seconds * 1000);
  if (action)
    made.append(
      h(
        "button",
        {
          type: "button",
          class: "button quiet",
          onclick: () => {
            clearTimeout(timer);
            gone();
            action.run();
          },
        },
        action.label,
      ),
    );
  document.getElementById("toasts").append(made);
  return gone;
}

export const problem = (error) => toast(error.message, { kind: "bad", seconds: 9 });

/** A number as people read it: four digits that count. */
export function short(number) {
  if (number === null || number === undefined) return "–";
  if (Number.isInteger(number) && Math.abs(number) < 1e6) return String(number);
  const size = Math.abs(number);
  return size !== 0 && (size < 1e-3 || size >= 1e5) ? number.toExponential(2) : String(Number(number.toPrecision(4)));
}

export const seconds = (time) =>
  time < 0.001
    ? `${(time * 1e6).toFixed(0)} µs`
    : time < 1
      ? `${(time * 1000).toFixed(time < 0.01 ? 1 : 0)} ms`
      : `${time.toFixed(1)} s`;

/** `num_inference_steps` as a heading. */
export function words(name) {
  const known = {
    num_inference_steps: "Steps",
    guidance_scale: "Guidance",
    negative_prompt: "Negative prompt",
    num_frames: "Frames",
  };
  const plain = known[name] ?? name.replaceAll("_", " ");
  return plain[0].toUpperCase() + plain.slice(1);
}

export const ago = (time) => {
  const past = Date.now() / 1000 - time;
  if (past < 60) return "just now";
  if (past < 3600) return `${Math.floor(past / 60)} min ago`;
  return past < 86400 ? `${Math.floor(past / 3600)} h ago` : new Date(time * 1000).toLocaleDateString();
};
