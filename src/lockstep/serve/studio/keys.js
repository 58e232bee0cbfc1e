// Keys: single letters act outside of fields only, and can be switched off.

import { fill, h, newId } from "./dom.js";
import { toggle } from "./fields.js";
import { cancel } from "./queue.js";
import { memory, store } from "./store.js";

const KEYS = [
  ["Ctrl Enter", "Make"],
  ["/", "To the prompt, or to the search"],
  ["Shift X", "Cancel what runs"],
  ["G", "Gallery"],
  ["M", "Make"],
  ["B", "Blocks"],
  ["← →", "The picture before and after"],
  ["F", "Star the picture"],
  ["R", "Replay the picture"],
  ["C", "Compare the picture"],
  ["Esc", "Back to the gallery"],
  ["?", "This list"],
];

const go = (address) => {
  location.hash = address;
};
// What a dialog had in focus keeps the keys until the next frame after it was closed, and is no field any more.
const inField = (target) =>
  target.closest("input, textarea, select, [contenteditable]")?.checkVisibility() ?? false;

export function listen() {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
    if ((event.ctrlKey || event.metaKey) && event.key === "Enter") {
      event.preventDefault();
      const form = document.querySelector("form.controls");
      if (form) form.requestSubmit();
      else go("#/make");
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || inField(event.target) || memory.get("keys.off", false))
      return;
    const act = actions(event);
    if (act) {
      event.preventDefault();
      act();
    }
  });
}

function actions(event) {
  const picture = document.querySelector("studio-picture");
  const press = (id) => () => document.getElementById(id)?.click();
  if (event.shiftKey && event.key === "X")
    return () => store.open.filter((job) => job.state === "running").forEach(cancel);
  const found = {
    "/": () =>
      (
        document.getElementById("prompt") ??
        document.querySelector("[type=search]") ?? { focus: () => go("#/make") }
      ).focus(),
    "?": help,
    g: () => go("#/gallery"),
    m: () => go("#/make"),
    b: () => go("#/blocks"),
    ...(picture?.job
      ? {
          ArrowLeft: () => picture.move(-1),
          ArrowRight: () => picture.move(1),
          f: () => picture.star(),
          r: press("replay"),
          c: () => go(`#/compare/${picture.job.id}/${picture.output.n}`),
          Escape: () => go("#/gallery"),
        }
      : {}),
  };
  return found[event.key];
}

export function help() {
  const dialog = document.getElementById("help"),
    id = newId("keys");
  fill(
    dialog,
    h("h2", {}, "Keys"),
    h(
      "dl",
      { class: "rows keys" },
      KEYS.flatMap(([key, said]) => [
        h(
          "dt",
          {},
          key.split(" ").map((part) => h("kbd", {}, part)),
        ),
        h("dd", {}, said),
      ]),
    ),
    h(
      "div",
      { class: "field row" },
      h("label", { for: id }, "Single letters are keys"),
      toggle(id, !memory.get("keys.off", false), (on) => memory.set("keys.off", !on)),
    ),
    h("form", { method: "dialog", class: "actions" }, h("button", { class: "button primary" }, "Close")),
  );
  dialog.showModal();
}
