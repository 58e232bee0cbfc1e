// Controls made from a schema: one function turns a form with its limits into a labelled field.

import { h, newId, words } from "./dom.js";

const simple = (form) => (form.anyOf ? (form.anyOf.find((one) => one.type !== "array") ?? form.anyOf[0]) : form);

/** A field for one value. `changed` gets the value, or null where it is to be the model's own. */
export function field(name, { form, description, default: own, label }, value, changed, { placeholder } = {}) {
  const one = simple(form),
    id = newId("field");
  const said = own === null || own === undefined ? (placeholder ?? "auto") : String(own);
  const control = one.enum
    ? choice(id, one.enum, value, own, changed)
    : one.type === "boolean"
      ? toggle(id, value ?? own ?? false, changed)
      : one.type === "array"
        ? list(id, value, one, changed)
        : one.type === "string"
          ? h("input", {
              id,
              type: "text",
              value: value ?? "",
              placeholder: said,
              onchange: (e) => changed(e.target.value || null),
            })
          : number(id, one, value, said, changed);
  const title = description
    ? h("span", { class: "tip", title: description }, label ?? words(name))
    : (label ?? words(name));
  return h(
    "div",
    { class: `field ${one.type === "boolean" ? "row" : ""}`, "data-name": name },
    h("label", { for: id }, title),
    control,
  );
}

/** A control under its name; a tip says more. */
export function labelled(label, control, tip) {
  const name = tip ? h("span", { class: "tip", title: tip }, label) : label;
  return h("div", { class: "field" }, h("label", { for: control.id }, name), control);
}

/** One of several: [[value, what it is called]]. */
export function select(id, options, value, changed) {
  const made = h("select", { id, onchange: (event) => changed(event.target.value) });
  made.append(...options.map(([name, label]) => h("option", { value: name }, label)));
  made.value = value ?? options[0][0];
  return made;
}

/** A number with its name, which is never left empty. */
export function amount(label, value, changed, more = {}) {
  const told = (event) => event.target.value !== "" && changed(Number(event.target.value));
  const box = { id: newId("amount"), type: "number", class: "number", step: 1, ...more };
  return labelled(label, h("input", { ...box, value, oninput: told }));
}

/** One of several factors, beside its name. */
export function factors(label, all, value, changed) {
  const names = all.map((factor) => [String(factor), `${factor}×`]);
  const made = select(newId("factor"), names, String(value), (chosen) => changed(Number(chosen)));
  return h("label", { for: made.id, class: "inline" }, label, made);
}

/** Buttons of which one is pressed: {name: what it is called}. */
export function segments(label, all, chosen, pressed) {
  const one = ([name, text]) => {
    const state = { "aria-pressed": String(name === chosen), "data-name": name };
    return h("button", { type: "button", ...state, onclick: () => pressed(name) }, text);
  };
  return h("div", { class: "segments", role: "group", "aria-label": label }, Object.entries(all).map(one));
}

/** A number; with both limits a slider stands beside it. */
export function number(id, form, value, placeholder, changed) {
  const whole = form.type === "integer";
  const factor = form.multipleOf; // steps are counted from the smallest value, which has to be one of them
  const least = factor && form.minimum !== undefined ? Math.ceil(form.minimum / factor) * factor : form.minimum;
  const limits = { min: least ?? "", max: form.maximum ?? "", step: factor ?? (whole ? 1 : "any") };
  const box = h("input", { id, type: "number", class: "number", ...limits, value: value ?? "", placeholder });
  box.inputMode = whole ? "numeric" : "decimal";
  const bounded = form.minimum !== undefined && form.maximum !== undefined;
  const slider = bounded && h("input", { type: "range", ...limits, tabindex: -1, "aria-hidden": "true" });
  box.addEventListener("input", () => {
    if (!box.checkValidity()) return;
    changed(box.value === "" ? null : Number(box.value));
    if (slider && box.value !== "") slider.value = box.value;
  });
  if (!slider) return box;
  slider.step = whole ? 1 : (form.maximum - form.minimum) / 100;
  slider.value = value ?? (Number(placeholder) || form.minimum);
  slider.addEventListener("input", () => {
    box.value = slider.value;
    changed(Number(slider.value));
  });
  return h("div", { class: "slider" }, slider, box);
}

function choice(id, names, value, own, changed) {
  const select = h("select", { id, onchange: (event) => changed(event.target.value || null) });
  if (own === null || own === undefined) select.append(h("option", { value: "" }, "off"));
  select.append(...names.map((name) => h("option", { value: name }, name)));
  select.value = value ?? own ?? "";
  return select;
}

export function toggle(id, on, changed) {
  return h("input", {
    id,
    type: "checkbox",
    role: "switch",
    class: "switch",
    checked: on,
    onchange: (event) => changed(event.target.checked),
  });
}

function list(id, value, form, changed) {
  const read = (event) => {
    const parts = event.target.value.split(/[\s,]+/).filter(Boolean);
    const found = form.items.type === "string" ? parts : parts.map(Number);
    changed(found.length && !found.some(Number.isNaN) ? found : null);
  };
  return h("input", { id, type: "text", value: (value ?? []).join(", "), placeholder: "auto", onchange: read });
}

/** Fields for the settings of a sampler or a guider: only what differs from its default is kept. */
export function settings(known, held, changed) {
  const values = { ...held };
  return Object.entries(known)
    .filter(([, spec]) => !spec.form.media)
    .map(([name, spec]) =>
      field(name, spec, values[name], (value) => {
        if (value === null || value === spec.default) delete values[name];
        else values[name] = value;
        changed({ ...values });
      }),
    );
}
