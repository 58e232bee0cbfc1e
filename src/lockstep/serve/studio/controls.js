// The form: everything that the model's schema lets one say, in groups, with the model's own values as placeholders.

import { button, h, fill, icon, newId, problem, toast, words } from "./dom.js";
import { draft } from "./draft.js";
import { field, labelled, number, select, toggle } from "./fields.js";
import "./painter.js";
import { pictureField } from "./pictures.js";
import { guiderPart, samplerPart } from "./sampling.js";
import { store } from "./store.js";

const SHOWN = [
  "prompt",
  "negative_prompt",
  "width",
  "height",
  "num_inference_steps",
  "guidance_scale",
  "strength",
  "image",
  "mask_image",
  "control_image",
  "controlnet_conditioning_scale",
];
const UNSERVED = /adapter/; // parts that no request can name
const RATIOS = { "1:1": 1, "4:3": 4 / 3, "3:4": 3 / 4, "3:2": 3 / 2, "2:3": 2 / 3, "16:9": 16 / 9, "9:16": 9 / 16 };
const PLAIN = { height: { form: { type: "integer", minimum: 1 } }, width: { form: { type: "integer", minimum: 1 } } };

const group = (title, ...parts) => h("fieldset", { class: "group" }, h("legend", {}, title), ...parts);

export class StudioControls extends HTMLElement {
  connectedCallback() {
    this.gone = new AbortController();
    draft.addEventListener("change", () => this.draw(), { signal: this.gone.signal });
    this.draw();
  }

  disconnectedCallback() {
    this.gone.abort();
  }

  draw() {
    const focused = this.contains(document.activeElement) ? document.activeElement.id : null;
    const open = new Set([...this.querySelectorAll("details[open]")].map((one) => one.dataset.name));
    const { scrollTop } = this;
    const parts = [
      this.prompts(),
      this.model(),
      this.size(),
      this.sampling(),
      this.seed(),
      this.start(),
      this.control(),
      this.loras(),
      this.more(),
    ];
    fill(this, parts);
    for (const one of this.querySelectorAll("details")) one.open = open.has(one.dataset.name);
    this.scrollTop = scrollTop;
    if (focused) document.getElementById(focused)?.focus();
  }

  spec(name) {
    return draft.schema.inputs[name];
  }

  field(name, more) {
    const spec = this.spec(name);
    if (!spec) return null;
    const own = spec.defaults?.[draft.workflow] ?? spec.default;
    return field(
      name,
      { ...PLAIN[name], ...spec, default: own },
      draft.held.inputs[name],
      (value) => draft.input(name, value),
      more,
    );
  }

  prompts() {
    const text = (name, id, label, rows, placeholder) =>
      this.spec(name) &&
      h(
        "div",
        { class: "field" },
        h("label", { for: id }, label),
        h("textarea", {
          id,
          rows,
          placeholder,
          maxLength: store.catalogue.limits.prompt,
          value: draft.held.inputs[name] ?? "",
          oninput: (event) => draft.input(name, event.target.value),
        }),
      );
    return h(
      "div",
      { class: "group prompts" },
      text("prompt", "prompt", "Prompt", 3, "What the picture has to show"),
      text("negative_prompt", "negative", "Negative prompt", 1, "What it must not show"),
    );
  }

  model() {
    const names = Object.keys(store.catalogue.models);
    if (names.length < 2) return null;
    const change = (name) => draft.model(name).catch(problem);
    const all = names.map((name) => [name, name]);
    return group("Model", labelled("Model", select("model", all, draft.held.model, change)));
  }

  size() {
    if (!this.spec("width") || draft.held.inputs.image) return null;
    const { width, height } = draft.schema,
      own = width && height;
    const step = this.spec("width").multiple_of ?? 8;
    const near = (side) => Math.max(step, Math.round(side / step) * step);
    const chosen = (name) => {
      const ratio = RATIOS[name],
        area = width * height;
      const sides =
        ratio === 1
          ? { width: null, height: null }
          : { width: near(Math.sqrt(area * ratio)), height: near(Math.sqrt(area / ratio)) };
      const inputs = { ...draft.held.inputs, ...sides };
      for (const side of ["width", "height"]) if (inputs[side] === null) delete inputs[side];
      draft.change({ inputs });
    };
    const now = (draft.held.inputs.width ?? width) / (draft.held.inputs.height ?? height);
    const chips =
      own &&
      h(
        "div",
        { class: "chips", role: "group", "aria-label": "Aspect ratio" },
        ...Object.keys(RATIOS).map((name) =>
          h(
            "button",
            {
              type: "button",
              class: "chip",
              "aria-pressed": String(Math.abs(now / RATIOS[name] - 1) < 0.06),
              onclick: () => chosen(name),
            },
            name,
          ),
        ),
      );
    return group(
      "Size",
      chips,
      h(
        "div",
        { class: "grid two" },
        this.field("width", { placeholder: String(width ?? "auto") }),
        this.field("height", { placeholder: String(height ?? "auto") }),
      ),
    );
  }

  sampling() {
    const count = newId("count");
    const several = { type: "integer", minimum: 1, maximum: store.catalogue.limits.count };
    return group(
      "Sampling",
      h(
        "div",
        { class: "grid two" },
        this.field("num_inference_steps"),
        this.field("guidance_scale"),
        draft.held.inputs.image && this.field("strength"),
        h(
          "div",
          { class: "field" },
          h("label", { for: count }, draft.schema.media === "video" ? "Videos" : "Pictures"),
          number(count, { ...several, maximum: undefined }, draft.held.count, "1", (value) =>
            draft.change({ count: Math.min(value ?? 1, several.maximum) }, true),
          ),
        ),
      ),
      samplerPart(),
      guiderPart(),
    );
  }

  seed() {
    const last = store.list().find((job) => job.outputs.length)?.request.seed;
    const record = newId("record");
    return group(
      "Seed",
      h(
        "div",
        { class: "seed" },
        h(
          "div",
          { class: "field" },
          h("label", { for: "seed" }, "Seed"),
          h("input", {
            id: "seed",
            type: "number",
            min: 0,
            max: Number.MAX_SAFE_INTEGER,
            step: 1,
            class: "number",
            placeholder: "a new one each time",
            value: draft.held.seed ?? "",
            oninput: ({ target }) => {
              if (Number(target.value) > Number.MAX_SAFE_INTEGER) {
                target.value = Number.MAX_SAFE_INTEGER; // a page counts no further
                toast(`The page takes seeds up to ${Number.MAX_SAFE_INTEGER}; the command line takes larger ones.`);
              }
              draft.change({ seed: target.value === "" ? null : Number(target.value) }, true);
            },
          }),
        ),
        button("dice", () => draft.change({ seed: null }), { title: "A new seed each time", kind: "quiet" }),
        button("again", () => last !== undefined && draft.change({ seed: last }), {
          title: "The seed of the last picture",
          kind: "quiet",
          disabled: last === undefined,
        }),
      ),
      h(
        "div",
        { class: "field row" },
        h(
          "label",
          { for: record },
          h(
            "span",
            {
              class: "tip",
              title: "Keeps what every block makes: for the block view, and to compare two runs step by step.",
            },
            "Record every block",
          ),
        ),
        toggle(record, draft.held.trace, (on) => draft.change({ trace: on }, true)),
      ),
    );
  }

  start() {
    if (!this.spec("image")) return null;
    const { image } = draft.held.inputs;
    if (!image)
      return group(
        "Start picture",
        pictureField("Start from a picture", null, (picture) => draft.input("image", picture, false)),
      );
    if (!this.spec("mask_image"))
      return group(
        "Start picture",
        pictureField("Start picture", image, (picture) => draft.input("image", picture, false)),
      );
    const painter = document
      .createElement("mask-painter")
      .set(image, draft.held.strokes, (strokes) => this.painted(strokes));
    return group(
      "Start picture",
      pictureField("Start picture", image, (picture) => draft.input("image", picture, false)),
      h("p", { class: "muted small" }, "Paint over what is to change; without paint the whole picture is the start."),
      painter,
    );
  }

  /** The first stroke makes another workflow of it, with other defaults. */
  painted(strokes) {
    const before = draft.workflow;
    draft.change({ strokes }, true);
    if (draft.workflow === before) return;
    const old = this.querySelector("[data-name=strength]");
    if (old) old.replaceWith(this.field("strength"));
  }

  control() {
    const { controlnets } = store.catalogue;
    const { control } = draft.held;
    if (!draft.schema.controlnet) return null;
    if (!controlnets.length)
      return this.none("ControlNet", "lockstep serve --controlnet name=FOLDER", "No ControlNet is served.");
    const change = (k, values, quiet) =>
      draft.change(
        { control: draft.held.control.map((unit, at) => (at === k ? { ...unit, ...values } : unit)) },
        quiet,
      );
    const add = () => draft.change({ control: [...control, { net: controlnets[0], picture: null, weight: 1 }] });
    const names = controlnets.map((name) => [name, name]);
    const units = control.map((unit, k) => {
      const net = select(newId("net"), names, unit.net, (name) => change(k, { net: name }));
      const weight = number(newId("weight"), { type: "number" }, unit.weight ?? 1, "1", (value) =>
        change(k, { weight: value ?? 1 }, true),
      );
      const remove = () => draft.change({ control: control.filter((_, at) => at !== k) });
      return h(
        "div",
        { class: "part card" },
        h("div", { class: "grid two" }, labelled("ControlNet", net), labelled("Weight", weight)),
        pictureField("Picture that steers", unit.picture, (picture) => change(k, { picture })),
        button("trash", remove, { label: "Remove", kind: "quiet" }),
      );
    });
    return group("ControlNet", ...units, button("plus", add, { label: "Add a ControlNet", kind: "quiet" }));
  }

  loras() {
    const { loras } = store.catalogue,
      held = draft.held.loras;
    if (!loras.length) return this.none("LoRA", "lockstep serve --lora name=FILE", "No LoRA is served.");
    return group(
      "LoRA",
      ...loras.map((name) => {
        const id = newId("lora"),
          strength = newId("strength"),
          on = name in held;
        const set = (value) => draft.change({ loras: { ...held, [name]: value } }, true);
        return h(
          "div",
          { class: "lora" },
          h(
            "label",
            { for: id, class: "inline" },
            toggle(id, on, (now) => {
              const { [name]: _, ...rest } = held;
              draft.change({ loras: now ? { ...held, [name]: 1 } : rest });
            }),
            h("span", {}, name),
          ),
          on &&
            h(
              "div",
              {},
              h("label", { for: strength, class: "sr-only" }, `Strength of ${name}`),
              number(strength, { type: "number", minimum: -2, maximum: 2 }, held[name], "1", (value) =>
                set(value ?? 1),
              ),
            ),
        );
      }),
    );
  }

  none(title, command, said) {
    return h(
      "details",
      { class: "more lone", "data-name": title },
      h("summary", {}, title),
      h("p", { class: "muted small" }, said, " ", h("code", {}, command)),
    );
  }

  more() {
    const rest = Object.entries(draft.schema.inputs).filter(
      ([name, spec]) =>
        !SHOWN.includes(name) && !UNSERVED.test(name) && (!spec.workflows || spec.workflows.includes(draft.workflow)),
    );
    const media = rest.filter(([, spec]) => spec.form.media === "picture");
    const plain = rest.filter(([, spec]) => !spec.form.media);
    if (!rest.length) return null;
    return h(
      "details",
      { class: "more lone", "data-name": "more" },
      h("summary", {}, `More of ${draft.schema.pipeline.replace(/Pipeline$/, "")}`),
      h(
        "div",
        { class: "grid two" },
        plain.map(([name]) => this.field(name)),
      ),
      media.map(([name]) =>
        pictureField(words(name), draft.held.inputs[name] ?? null, (picture) => draft.input(name, picture, false)),
      ),
    );
  }
}

customElements.define("studio-controls", StudioControls);

/** The bar that stays in sight: make, and what it will be. */
export function makeBar(make) {
  return h(
    "div",
    { class: "make-bar" },
    h(
      "button",
      { type: "submit", class: "button primary big", id: "make", onclick: make },
      icon("spark"),
      h("span", {}, "Make"),
      h("kbd", {}, "Ctrl ↵"),
    ),
    button("trash", () => draft.clear(), { title: "Empty the form", kind: "quiet" }),
  );
}
