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

/** A number; with both limits a slider stands beside it. */
export function number(id, form, value, placeholder, changed) {
  const whole = form.type === "integer";
  const step = form.multipleOf ?? (whole ? 1 : "any");
  const limits = { min: form.minimum ?? "", max: form.maximum ?? "", step };
  const read = (event) => (event.target.value === "" ? null : Number(event.target.value));
  const box = h("input", {
    id,
    type: "number",
    class: "number",
    ...limits,
    value: value ?? "",
    placeholder,
    inputmode: whole ? "numeric" : "decimal",
    oninput: (event) => {
      if (event.target.checkValidity()) {
        changed(read(event));
        if (slider && event.target.value !== "") slider.value = event.target.value;
      }
    },
  });
  if (form.minimum === undefined || form.maximum === undefined) return box;
  const slider = h("input", {
    type: "range",
    min: form.minimum,
    max: form.maximum,
    step: whole ? 1 : (form.maximum - form.minimum) / 100,
    value: value ?? (Number(placeholder) || form.minimum),
    tabindex: -1,
    "aria-hidden": "true",
    oninput: (event) => {
      box.value = event.target.value;
      changed(Number(event.target.value));
    },
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
