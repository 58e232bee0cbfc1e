// Values between two blocks: a look at each, its numbers as a picture, and ways to change it.

import { fill, h, newId, short } from "./dom.js";
import { amount, labelled, select, toggle } from "./fields.js";

const COLD = [47, 92, 214],
  WARM = [226, 112, 40];
const WAYS = {
  "": "as it is",
  multiply: "multiply by",
  add: "add",
  noise: "add noise",
  toward: "turn toward noise",
  value: "set all to",
};

/** A tensor as small pictures, one a channel: cold below zero, warm above. */
export class ValueMap extends HTMLElement {
  set({ shape, values }, label) {
    const size = shape.filter((side, k) => !(k === 0 && side === 1));
    const [channels, high, wide] = size.length === 3 ? size : size.length === 2 ? [1, ...size] : [1, 1, values.length];
    let largest = 1e-12;
    for (const value of values) if (Math.abs(value) > largest && Number.isFinite(value)) largest = Math.abs(value);
    const shown = Math.min(channels, 16),
      dark =
        getComputedStyle(document.documentElement).colorScheme.startsWith("dark") ||
        (matchMedia("(prefers-color-scheme: dark)").matches && !document.documentElement.dataset.theme);
    const ground = dark ? [24, 27, 32] : [250, 250, 251];
    const maps = Array.from({ length: shown }, (_, c) =>
      this.map(values.subarray(c * high * wide, (c + 1) * high * wide), high, wide, largest, ground),
    );
    fill(
      this,
      h(
        "div",
        {
          class: `maps ${shown === 1 ? "one" : ""}`,
          role: "img",
          "aria-label": `${label}: ${shown} of ${channels} channels, up to ${short(largest)}`,
        },
        maps,
      ),
      h(
        "p",
        { class: "muted small number" },
        `±${short(largest)}${channels > shown ? ` · ${shown} of ${channels} channels` : ""}`,
      ),
    );
    return this;
  }

  map(values, high, wide, largest, ground) {
    const canvas = h("canvas", { width: wide, height: high }),
      pen = canvas.getContext("2d"),
      picture = pen.createImageData(wide, high);
    for (let k = 0; k < values.length; k += 1) {
      const share = values[k] / largest,
        to = share < 0 ? COLD : WARM,
        much = Math.min(1, Math.abs(share)) ** 0.7;
      for (let c = 0; c < 3; c += 1) picture.data[k * 4 + c] = ground[c] + (to[c] - ground[c]) * much;
      picture.data[k * 4 + 3] = 255;
    }
    pen.putImageData(picture, 0, 0);
    return canvas;
  }
}

customElements.define("value-map", ValueMap);

export const isTensor = (look) => Array.isArray(look.shape);

const spread = (look) => `${short(look.mean)} ± ${short(look.std)}`;

/** `[1, 4, 16, 16]  −0.31 ± 1.19`. */
export function said(look) {
  if (isTensor(look)) return `[${look.shape.join(", ")}] ${look.mean === undefined ? look.dtype : spread(look)}`;
  return look.value === undefined || look.value === null ? look.type : String(look.value);
}

/** One value with what can be done to it; `changed` gets the edit, or null. */
export function editor(name, look, numbers, changed) {
  const body = h(
    "div",
    { class: "value" },
    h(
      "div",
      { class: "value-head" },
      h("b", {}, name),
      h(
        "span",
        { class: "muted small number" },
        isTensor(look) ? `${look.dtype} [${look.shape.join(", ")}]` : look.type,
      ),
    ),
  );
  if (!isTensor(look)) return put(body, scalar(name, look, changed));
  if (look.mean !== undefined)
    body.append(
      h(
        "dl",
        { class: "stats number" },
        ["mean", "std", "min", "max"].flatMap((key) => [h("dt", {}, key), h("dd", {}, short(look[key]))]),
      ),
    );
  if (numbers && numbers.values.length)
    body.append(
      numbers.values.length <= 64 && numbers.shape.length === 1
        ? h("p", { class: "small number wrap" }, Array.from(numbers.values, short).join("  "))
        : document.createElement("value-map").set(numbers, name),
    );
  return put(body, changed && tensorEdit(name, changed));
}

const put = (body, more) => {
  if (more) body.append(more);
  return body;
};

function tensorEdit(name, changed) {
  const place = h("div", { class: "edit-fields" });
  const held = { amount: 1, seed: 0 };
  const tell = (kind) =>
    changed(
      kind === ""
        ? null
        : kind === "noise"
          ? { noise: { seed: held.seed, strength: held.amount } }
          : kind === "toward"
            ? { toward: { seed: held.seed, amount: held.amount } }
            : { [kind]: held.amount },
    );
  const box = (label, key, kind, step) => {
    const changedTo = (value) => {
      held[key] = value;
      tell(kind);
    };
    return amount(label, held[key], changedTo, { step, "data-edit": `${name}.${key}` });
  };
  const choose = (kind) => {
    held.amount = { multiply: 1, add: 0, noise: 0.1, toward: 0.2, value: 0 }[kind] ?? 0;
    const label = { multiply: "Factor", add: "Amount", noise: "Strength", toward: "Share, 0 to 1", value: "Value" }[
      kind
    ];
    fill(
      place,
      kind && box(label, "amount", kind, "any"),
      ["noise", "toward"].includes(kind) && box("Seed", "seed", kind, 1),
    );
    tell(kind);
  };
  const way = select(newId("way"), Object.entries(WAYS), "", choose);
  way.dataset.edit = name;
  return h("div", { class: "edit" }, labelled("Change", way), place);
}

function scalar(name, look, changed) {
  const id = newId("value"),
    give = (value) => changed?.(value === look.value ? null : { value });
  if (!changed || !["bool", "int", "float", "str"].includes(look.type))
    return h("p", { class: "small number wrap" }, look.value === undefined ? "not shown" : String(look.value));
  const control =
    look.type === "bool"
      ? toggle(id, look.value, give)
      : look.type === "str"
        ? h("input", { id, type: "text", value: look.value, oninput: (event) => give(event.target.value) })
        : h("input", {
            id,
            type: "number",
            class: "number",
            step: look.type === "int" ? 1 : "any",
            value: look.value,
            oninput: (event) => event.target.value !== "" && give(Number(event.target.value)),
          });
  return h("div", { class: "field" }, h("label", { for: id, class: "sr-only" }, `Another value for ${name}`), control);
}
