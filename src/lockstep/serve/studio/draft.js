// What the form holds: kept by this browser, and turned into the request that the server checks.

import { send } from "./api.js";
import { keepMask } from "./painter.js";
import { memory, store } from "./store.js";

const EMPTY = {
  model: null,
  inputs: {},
  seed: null,
  count: 1,
  scheduler: null,
  guider: null,
  loras: {},
  control: [],
  trace: false,
  strokes: [],
};

class Draft extends EventTarget {
  constructor() {
    super();
    this.held = { ...structuredClone(EMPTY), ...memory.get("draft", {}) };
  }

  async begin() {
    const { models, default: first, loras, controlnets } = store.catalogue;
    if (!models[this.held.model]) this.held.model = first;
    this.held.loras = Object.fromEntries(Object.entries(this.held.loras).filter(([name]) => loras.includes(name)));
    this.held.control = this.held.control.filter((unit) => controlnets.includes(unit.net));
    this.schema = await store.schema(this.held.model);
  }

  /** Change some of it; `quiet` where the field that changed shows it already. */
  change(values, quiet = false) {
    Object.assign(this.held, values);
    memory.set("draft", this.held);
    if (!quiet) this.dispatchEvent(new Event("change"));
    this.dispatchEvent(new Event("edit"));
  }

  input(name, value, quiet = true) {
    const inputs = { ...this.held.inputs };
    if (value === null || value === "" || value === undefined) delete inputs[name];
    else inputs[name] = value;
    this.change({ inputs, ...(name === "image" ? { strokes: [] } : {}) }, quiet);
  }

  async model(name) {
    this.schema = await store.schema(name);
    const inputs = Object.fromEntries(Object.entries(this.held.inputs).filter(([input]) => this.schema.inputs[input]));
    this.change({ model: name, inputs });
  }

  /** The pictures that are given: they decide which blocks run. */
  get given() {
    const pictures = Object.entries(this.held.inputs)
      .filter(([name]) => this.schema.inputs[name]?.form.media)
      .map(([name]) => name);
    if (pictures.includes("image") && this.held.strokes.length) pictures.push("mask_image");
    if (this.units.length) pictures.push("control_image");
    return pictures;
  }

  get workflow() {
    const fits = Object.entries(this.schema.workflows).filter(([, wants]) =>
      wants.every((name) => this.given.includes(name)),
    );
    return fits.sort((a, b) => b[1].length - a[1].length)[0]?.[0] ?? Object.keys(this.schema.workflows)[0];
  }

  get units() {
    return this.held.control.filter((unit) => unit.picture);
  }

  get steps() {
    return this.held.inputs.num_inference_steps ?? this.schema.inputs.num_inference_steps?.default ?? 1;
  }

  /** The body of a request; `over` wins. */
  async wish(over = {}) {
    const { held, schema } = this;
    const inputs = {};
    for (const [name, value] of Object.entries(held.inputs)) {
      const known = schema.inputs[name];
      if (!known || (known.workflows && !known.workflows.includes(this.workflow) && !known.form.media)) continue;
      inputs[name] = known.form.media ? { file: value.file } : value;
    }
    if (held.inputs.image && held.strokes.length && schema.inputs.mask_image)
      inputs.mask_image = { file: (await keepMask(held.inputs.image, held.strokes)).file };
    if (this.units.length) {
      inputs.control_image = this.units.map((unit) => ({ file: unit.picture.file }));
      if (this.units.length === 1) [inputs.control_image] = inputs.control_image;
      const weights = this.units.map((unit) => unit.weight ?? 1);
      if (schema.inputs.controlnet_conditioning_scale)
        inputs.controlnet_conditioning_scale = weights.length > 1 ? weights : weights[0];
    }
    return {
      model: held.model,
      inputs,
      count: held.trace ? 1 : held.count,
      trace: held.trace,
      ...(held.seed === null ? {} : { seed: held.seed }),
      ...(held.scheduler
        ? {
            scheduler: {
              class: held.scheduler.class,
              settings: { ...held.scheduler.named, ...held.scheduler.settings },
            },
          }
        : {}),
      ...(held.guider ? { guider: { class: held.guider.class, settings: held.guider.settings } } : {}),
      loras: Object.entries(held.loras).map(([name, strength]) => ({ name, strength })),
      controlnets: this.units.map((unit) => unit.net),
      ...over,
      inputs: { ...inputs, ...over.inputs },
    };
  }

  async make(over) {
    return store.keep(await send("/api/jobs", await this.wish(over)));
  }

  /** The settings of a job, back in the form. */
  async take(job, seed) {
    const { request } = job;
    if (request.model !== this.held.model) await this.model(request.model);
    const inputs = {};
    for (const [name, value] of Object.entries(request.inputs))
      if (!["mask_image", "control_image"].includes(name) && this.schema.inputs[name]) inputs[name] = value;
    const nets = [request.inputs.control_image ?? []].flat();
    this.change({
      inputs,
      seed: seed ?? request.seed,
      count: request.count,
      strokes: request.inputs.mask_image ? [{ file: request.inputs.mask_image.file }] : [],
      scheduler: request.scheduler && {
        class: request.scheduler.class,
        name: nameOf(request.scheduler),
        named: {},
        settings: request.scheduler.settings,
      },
      guider: request.guider,
      loras: Object.fromEntries(request.loras.map((lora) => [lora.name, lora.strength])),
      control: request.controlnets.map((net, k) => ({ net, picture: nets[k], weight: 1 })),
    });
  }

  clear() {
    this.change({ ...structuredClone(EMPTY), model: this.held.model });
  }
}

/** Every name of a sampler: [{class, name, label, grids, named}]. */
export function samplers() {
  const named = (row) => (row.names.length > 1 ? row.names.slice(1) : row.names);
  const rows = store.catalogue.schedulers.flatMap((row) =>
    named(row).map((name) => ({ row, name, label: row.names.length > 1 ? spoken(name) : ofClass(row.class) })),
  );
  return rows.sort((a, b) => a.label.localeCompare(b.label));
}

const nameOf = (scheduler) => samplers().find(({ row }) => row.class === scheduler.class)?.name ?? null;

/** A class in words: `EDMDPMSolverMultistepScheduler` is "EDM DPM Solver". */
const ofClass = (name) =>
  name
    .replace(/Scheduler$/, "")
    .replace(/(Discrete|Multistep)/, "")
    .replace(/(CogVideoX|UniPC|UnCLIP|EDM|SA)(?=[A-Z])/, "$1 ")
    .replace(/(?<![a-z])([A-Z]{2,})(?=[A-Z][a-z])/g, "$1 ")
    .replace(/(?<!Cog|Video|Uni|Un)(?<=[a-z])(?=[A-Z])/g, " ");

function spoken(name) {
  const upper = /^(ddim|ddpm|lms|lcm|tcd|deis|pndm|plms|ipndm|sde|2m|2s|dpm.*|edm.*|kdpm.*|\d\w)$/;
  return name
    .split("_")
    .map((part) => (upper.test(part) ? part.toUpperCase() : part[0].toUpperCase() + part.slice(1)))
    .join(" ");
}

export const draft = new Draft();
