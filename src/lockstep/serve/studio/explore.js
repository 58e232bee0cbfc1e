// Explore: two settings against each other as a grid, or a walk from the noise of one seed toward another.

import { send } from "./api.js";
import { button, fill, form, h, newId, toast, words } from "./dom.js";
import { draft, samplers } from "./draft.js";
import { amount, segments } from "./fields.js";
import { livePicture, tile } from "./media.js";
import { cancel } from "./queue.js";
import { ENDED, memory, results, store } from "./store.js";

const MOST = 64;
const PLACE = "start.latents"; // where a walk turns the noise

/** `1, 2, 4` or `1..8` or `0..1/5` (five values from 0 to 1). */
function numbersIn(text) {
  return text.split(",").flatMap((part) => {
    const range = part.trim().match(/^(-?[\d.]+)\s*\.\.\s*(-?[\d.]+)(?:\s*\/\s*(\d+))?$/);
    if (!range) return part.trim() === "" || Number.isNaN(Number(part)) ? [] : [Number(part)];
    const [low, high] = [Number(range[1]), Number(range[2])],
      many = range[3] ? Number(range[3]) : Math.abs(high - low) + 1;
    return Array.from({ length: Math.min(many, MOST) }, (_, k) =>
      Number((many > 1 ? low + ((high - low) * k) / (many - 1) : low).toFixed(6)),
    );
  });
}

const wordsIn = (text) =>
  text
    .split(",")
    .map((one) => one.trim())
    .filter(Boolean);

/** What can stand at an axis: how its values are written, and how one of them changes a request. */
function axes() {
  const found = { none: { label: "Nothing", values: () => [null], apply: () => ({}) } };
  found.seed = { label: "Seed", example: "1..4", values: numbersIn, apply: (seed) => ({ seed }) };
  found.prompt = {
    label: "Prompt: other words",
    example: "cat, dog, fox",
    hint: "the first word is replaced by each of them",
    values: wordsIn,
    apply: (word, all) => ({ inputs: { prompt: (draft.held.inputs.prompt ?? "").replaceAll(all[0], word) } }),
  };
  found.sampler = {
    label: "Sampler",
    example: "ddim, euler, dpm++_2m",
    values: wordsIn,
    apply: (scheduler) => ({ scheduler }),
    choices: samplers().map((one) => one.name),
  };
  found.guider = {
    label: "Guider",
    example: Object.keys(store.catalogue.guiders).slice(0, 2).join(", "),
    values: wordsIn,
    apply: (guider) => ({ guider }),
    choices: Object.keys(store.catalogue.guiders),
  };
  for (const [name, spec] of Object.entries(draft.schema.inputs)) {
    const form = spec.form.anyOf?.find((one) => one.type !== "array") ?? spec.form;
    if (!["integer", "number"].includes(form.type) || !(spec.workflows ?? [draft.workflow]).includes(draft.workflow))
      continue;
    const example =
      { num_inference_steps: "4, 8, 16", guidance_scale: "1..7/4", strength: "0.4..1/4" }[name] ??
      `${form.minimum ?? 0}, ${form.maximum ?? 1}`;
    found[name] = { label: words(name), example, values: numbersIn, apply: (value) => ({ inputs: { [name]: value } }) };
  }
  return found;
}

const headOf = (axis, value) => (value === null ? "" : typeof value === "string" ? value : `${axis.label} ${value}`);

export class StudioExplore extends HTMLElement {
  connectedCallback() {
    this.gone = new AbortController();
    this.held = memory.get("explore", {
      mode: "grid",
      x: "num_inference_steps",
      y: "none",
      xs: "4, 8, 12",
      ys: "",
      from: 1,
      to: 2,
      frames: 5,
      cells: [],
      columns: [],
      rows: [],
    });
    this.form = form("panel explore-form", "What to explore", () => this.make());
    this.table = h("div", {
      class: "explore-table",
      tabindex: 0,
      role: "region",
      "aria-label": "Results of the exploration",
    });
    fill(this, this.form, this.table);
    store.hear("jobs", ({ job }) => (!job || this.ids.includes(job.id)) && this.cell(job?.id), this.gone.signal);
    store.hear("preview", (id) => this.ids.includes(id) && this.cell(id), this.gone.signal);
    this.drawForm();
    this.drawTable();
    for (const id of this.ids)
      if (!store.jobs.has(id))
        store.job(id).then(
          () => this.cell(id),
          () => {},
        );
  }

  disconnectedCallback() {
    this.gone.abort();
    clearInterval(this.playing);
  }

  get ids() {
    return this.held.cells.flat();
  }

  get open() {
    return this.ids.map((id) => store.jobs.get(id)).filter((job) => job && !ENDED.includes(job.state));
  }

  keep(values) {
    Object.assign(this.held, values);
    memory.set("explore", this.held);
  }

  drawForm() {
    const { held } = this,
      walks = held.mode === "walk";
    const change = (mode) => {
      this.keep({ mode, cells: [], columns: [], rows: [] });
      this.drawForm();
      this.drawTable();
    };
    const modes = segments("Kind", { grid: "Grid", walk: "Seed walk" }, held.mode, change);
    this.note = h("p", { class: "form-problem", role: "alert" });
    fill(
      this.form,
      modes,
      h(
        "p",
        { class: "muted small" },
        walks
          ? "From the noise of one seed toward another; everything else is as in the form."
          : "Every value of one setting with every value of the other; everything else is as in the form.",
      ),
      draft.schema.inputs.prompt &&
        h(
          "div",
          { class: "field" },
          h("label", { for: "explore-prompt" }, "Prompt"),
          h("textarea", {
            id: "explore-prompt",
            rows: 2,
            value: draft.held.inputs.prompt ?? "",
            oninput: (event) => draft.input("prompt", event.target.value),
          }),
        ),
      walks ? this.walkFields() : [this.axis("x", "Columns"), this.axis("y", "Rows")],
      this.note,
      h(
        "div",
        { class: "actions" },
        h("button", { type: "submit", class: "button primary" }, "Make all"),
        (this.stop = button("stop", () => this.open.forEach(cancel), {
          label: "Cancel",
          kind: "quiet",
          hidden: !this.open.length,
        })),
      ),
    );
  }

  walkFields() {
    const box = (name, label, limits) =>
      amount(label, this.held[name], (value) => this.keep({ [name]: value }), limits);
    return h(
      "div",
      { class: "grid three" },
      box("from", "From seed", { min: 0 }),
      box("to", "Toward seed", { min: 0 }),
      box("frames", "Pictures", { min: 2, max: 32 }),
    );
  }

  axis(key, label) {
    const all = axes(),
      name = all[this.held[key]] ? this.held[key] : "none",
      chosen = all[name],
      id = newId(key),
      values = newId(key);
    const pick = (event) => {
      this.keep({ [key]: event.target.value, [`${key}s`]: all[event.target.value].example ?? "" });
      this.drawForm();
    };
    const list = newId("list");
    return h(
      "div",
      { class: "axis" },
      h(
        "div",
        { class: "field" },
        h("label", { for: id }, label),
        h(
          "select",
          { id, onchange: pick },
          Object.entries(all).map(([one, { label: text }]) =>
            h("option", { value: one, selected: one === name }, text),
          ),
        ),
      ),
      name !== "none" &&
        h(
          "div",
          { class: "field" },
          h(
            "label",
            { for: values },
            h(
              "span",
              {
                class: "tip",
                title: chosen.hint ?? "Separated by commas; 1..8 is a range, 0..1/5 are five values in it.",
              },
              "Values",
            ),
          ),
          h("input", {
            id: values,
            type: "text",
            value: this.held[`${key}s`],
            placeholder: chosen.example,
            ...(chosen.choices ? { list } : {}),
            oninput: (event) => this.keep({ [`${key}s`]: event.target.value }),
          }),
          chosen.choices &&
            h(
              "datalist",
              { id: list },
              chosen.choices.map((one) => h("option", { value: one })),
            ),
        ),
    );
  }

  async make() {
    this.note.textContent = "";
    try {
      const wishes = this.held.mode === "walk" ? this.walk() : this.grid();
      if (wishes.flat().length > MOST)
        throw new Error(`${wishes.flat().length} pictures; ${MOST} at a time are the most.`);
      const seed = draft.held.seed ?? Math.floor(Math.random() * 2 ** 31);
      const cells = [];
      this.keep({ cells });
      for (const row of wishes) {
        const made = [];
        cells.push(made);
        for (const over of row)
          made.push(
            store.keep(await send("/api/jobs", await draft.wish({ seed, count: 1, trace: false, ...over }))).id,
          );
        this.keep({ cells });
      }
      this.drawTable();
      toast(`${this.ids.length} pictures are on their way.`);
    } catch (error) {
      this.note.textContent = error.message;
      this.drawTable();
    }
  }

  grid() {
    const all = axes(),
      x = all[this.held.x],
      y = all[this.held.y],
      xs = x.values(this.held.xs),
      ys = y.values(this.held.ys);
    if (!xs.length || !ys.length) throw new Error("An axis has no value: write some, separated by commas.");
    this.keep({
      columns: xs.map((value) => headOf(x, value)),
      rows: ys.map((value) => headOf(y, value)),
    });
    return ys.map((down) =>
      xs.map((across) => {
        const one = x.apply(across, xs),
          other = y.apply(down, ys);
        return { ...one, ...other, inputs: { ...one.inputs, ...other.inputs } };
      }),
    );
  }

  walk() {
    const { from, to, frames } = this.held;
    if (!draft.schema.blocks[draft.workflow].boundaries.includes(PLACE))
      throw new Error("This workflow has no noise of its own to walk in.");
    const parts = Array.from({ length: frames }, (_, k) => k / (frames - 1));
    this.keep({ columns: parts.map((part) => `${Math.round(part * 100)} %`), rows: [""] });
    return [
      parts.map((part) => ({
        seed: from,
        edits: [{ at: PLACE, values: { latents: { toward: { seed: to, amount: part } } } }],
      })),
    ];
  }

  // ---- results ----

  drawTable() {
    const { cells, columns, rows } = this.held;
    clearInterval(this.playing);
    this.places = new Map();
    if (!cells.length) {
      fill(
        this.table,
        h(
          "div",
          { class: "empty-state wide" },
          h(
            "p",
            { class: "lead" },
            this.held.mode === "walk" ? "A walk between two seeds" : "One setting against another",
          ),
          h("p", { class: "muted" }, "Choose the values, and press Make all. What was made stays in the gallery, too."),
        ),
      );
      return;
    }
    const place = (id) => {
      const made = h("td", {}, h("div", { class: "cell" }));
      this.places.set(id, made.firstElementChild);
      return made;
    };
    const headed = rows.some(Boolean);
    fill(
      this.table,
      this.held.mode === "walk" && this.player(),
      h(
        "table",
        { class: "grid-table" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            headed && h("td", {}),
            columns.map((text) => h("th", { scope: "col" }, text)),
          ),
        ),
        h(
          "tbody",
          {},
          cells.map((row, k) => h("tr", {}, headed && h("th", { scope: "row" }, rows[k]), row.map(place))),
        ),
      ),
    );
    this.ids.forEach((id) => this.cell(id));
  }

  cell(id) {
    const place = this.places?.get(id),
      job = store.jobs.get(id);
    if (!place || !job) return;
    const [output] = results(job),
      { width, height } = job.request;
    place.style.setProperty("--ratio", String(width / height));
    fill(
      place,
      output
        ? tile(job, output, `#/picture/${id}/${output.n}`)
        : (livePicture(job) ?? h("span", { class: "muted small" }, job.error?.message ?? job.state)),
    );
    this.frame?.();
    this.stop.hidden = !this.open.length;
  }

  /** The walk as a film. */
  player() {
    const id = newId("walk"),
      picture = h("div", { class: "frame small" });
    const range = h("input", {
      id,
      type: "range",
      min: 0,
      max: this.ids.length - 1,
      value: 0,
      oninput: () => this.frame(),
    });
    this.frame = () => {
      const job = store.jobs.get(this.ids[Number(range.value)]),
        [output] = job ? results(job) : [];
      if (output)
        fill(
          picture,
          h("img", {
            src: output.url,
            alt: `Part ${Number(range.value) + 1} of the walk`,
            width: output.facts.width,
            height: output.facts.height,
          }),
        );
    };
    const play = () => {
      if (this.playing) this.playing = clearInterval(this.playing);
      else
        this.playing = setInterval(() => {
          range.value = (Number(range.value) + 1) % this.ids.length;
          this.frame();
        }, 350);
    };
    return h(
      "div",
      { class: "walk-player" },
      picture,
      h(
        "div",
        { class: "tools" },
        button("play", play, { title: "Play or pause", kind: "quiet" }),
        h("label", { for: id, class: "sr-only" }, "Place in the walk"),
        range,
      ),
    );
  }
}

customElements.define("studio-explore", StudioExplore);
