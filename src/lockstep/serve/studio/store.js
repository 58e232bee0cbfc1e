// What the server knows, as the page has heard it. Jobs and pictures live in the server: a reload shows the same.

import { ask, query } from "./api.js";

export const ENDED = ["done", "failed", "cancelled"];
const ASIDE = ["values", "preview", "trace"];
const KINDS = ["queued", "running", ...ENDED, "step", "preview", "block_start", "block_end"];

const AGAIN = 3000; // milliseconds until a stream that was refused is asked for again

/** The pictures and videos of a job, without what was kept of the way there. */
export const results = (job) => job.outputs.filter((output) => !ASIDE.includes(output.facts.kind));
export const aside = (job, kind) => job.outputs.find((output) => output.facts.kind === kind);
export const isVideo = (output) => output.media.startsWith("video/");
export const promptOf = (job) => job.request.inputs.prompt ?? "";

const isOlder = (job, than) =>
  job.attempt < than.attempt ||
  (job.attempt === than.attempt && ENDED.includes(than.state) && !ENDED.includes(job.state));

class Store extends EventTarget {
  constructor() {
    super();
    this.jobs = new Map(); // id -> job
    this.progress = new Map(); // id -> {step, steps}
    this.previews = new Map(); // id -> the address of the newest picture on the way
    this.walks = new Map(); // id -> {current, seconds: Map, values: Map} by the path of a block
    this.schemas = new Map();
    this.connected = false;
  }

  tell(kind, detail = {}) {
    this.dispatchEvent(new CustomEvent(kind, { detail }));
  }

  /** Listen until an element leaves the page. */
  hear(kinds, heard, signal) {
    for (const kind of [kinds].flat()) this.addEventListener(kind, (event) => heard(event.detail, kind), { signal });
  }

  async begin() {
    this.catalogue = await ask("/api/catalogue");
    const held = await ask("/api/jobs?limit=100");
    for (const job of held.jobs) this.keep(job, false);
    for (const job of (await ask("/api/queue")).jobs) this.keep(job, false);
    this.tell("jobs");
    this.listen(held.last_event);
  }

  keep(job, told = true) {
    const before = this.jobs.get(job.id);
    if (before && isOlder(job, before)) return before; // an answer that was overtaken by an event
    this.jobs.set(job.id, job);
    if (job.progress) this.progress.set(job.id, job.progress);
    if (ENDED.includes(job.state)) {
      this.progress.delete(job.id);
      if (job.state === "done") this.forgetPreview(job.id);
    }
    if (told) this.tell("jobs", { job, before });
    return job;
  }

  forgetPreview(id) {
    const address = this.previews.get(id);
    this.previews.delete(id);
    if (address) setTimeout(() => URL.revokeObjectURL(address), 2000); // what shows it may still be on the screen
  }

  async job(id) {
    return this.jobs.get(id) ?? this.keep(await ask(`/api/jobs/${id}`));
  }

  async schema(model) {
    if (!this.schemas.has(model)) this.schemas.set(model, ask(`/api/schema?${query({ model })}`));
    return this.schemas.get(model);
  }

  list() {
    return [...this.jobs.values()].sort((a, b) => b.seq - a.seq);
  }

  get open() {
    const order = { running: 0, queued: 1 };
    const waiting = [...this.jobs.values()].filter((job) => !ENDED.includes(job.state));
    return waiting.sort((a, b) => order[a.state] - order[b.state] || b.priority - a.priority || a.seq - b.seq);
  }

  /** One tab listens to the server and tells the others: browsers allow few connections to one server. */
  listen(after) {
    this.last = after;
    if (!navigator.locks || !window.BroadcastChannel) {
      this.stream((told) => this.heard(told));
      return;
    }
    const others = new BroadcastChannel("lockstep");
    others.onmessage = ({ data }) => this.heard(data);
    this.status(true);
    const tell = (told) => {
      others.postMessage(told);
      this.heard(told);
    };
    navigator.locks.request("lockstep stream", () => new Promise(() => this.stream(tell))); // until this tab is gone
  }

  stream(tell) {
    const stream = new EventSource(`/api/events?previews=true&after=${this.last}`);
    for (const kind of KINDS) stream.addEventListener(kind, (event) => tell(JSON.parse(event.data)));
    stream.onopen = () => tell({ kind: "status", connected: true });
    stream.onerror = () => {
      tell({ kind: "status", connected: false });
      const refused = stream.readyState === EventSource.CLOSED; // where it was only lost, the browser asks again
      if (refused) setTimeout(() => this.stream(tell), AGAIN);
    };
    addEventListener("pagehide", () => stream.close());
  }

  status(connected) {
    this.connected = connected;
    this.tell("status");
  }

  heard(told) {
    const id = told.job;
    this.last = told.id ?? this.last;
    if (told.kind === "status") this.status(told.connected);
    else if (told.kind === "step") {
      this.progress.set(id, { step: told.step, steps: told.steps });
      this.tell("step", id);
    } else if (told.kind === "preview") {
      this.forgetPreview(id);
      const bytes = Uint8Array.from(atob(told.png), (letter) => letter.charCodeAt(0));
      this.previews.set(id, URL.createObjectURL(new Blob([bytes], { type: "image/png" })));
      this.tell("preview", id);
    } else if (told.kind.startsWith("block_")) this.passed(told);
    else this.changed(told);
  }

  passed(told) {
    if (!this.walks.has(told.job)) {
      this.walks.set(told.job, { current: null, seconds: new Map(), values: new Map() });
      if (this.walks.size > 20) this.walks.delete(this.walks.keys().next().value);
    }
    const walk = this.walks.get(told.job);
    if (told.kind === "block_start") walk.current = told.path;
    else {
      walk.seconds.set(told.path, told.seconds);
      if (told.values) walk.values.set(told.path, told.values);
    }
    this.tell("block", told.job);
  }

  async changed(told) {
    const known = this.jobs.get(told.job);
    if (known && told.kind === "running") this.keep({ ...known, state: "running", started: told.time });
    try {
      this.keep(await ask(`/api/jobs/${told.job}`));
    } catch {
      this.forget(told.job); // it was deleted meanwhile
    }
  }

  forget(id) {
    const job = this.jobs.get(id);
    this.jobs.delete(id);
    this.forgetPreview(id);
    if (job) this.tell("jobs", { gone: job });
  }

  /** The job, when it has ended. */
  ended(id) {
    return new Promise((resolve) => {
      const look = () => {
        const job = this.jobs.get(id);
        if (!job || !ENDED.includes(job.state)) return;
        this.removeEventListener("jobs", look);
        resolve(job);
      };
      this.addEventListener("jobs", look);
      look();
    });
  }
}

export const store = new Store();

/** What this browser remembers; a browser that remembers nothing is no error. */
export const memory = {
  get(name, otherwise) {
    try {
      return JSON.parse(localStorage.getItem(`lockstep.${name}`)) ?? otherwise;
    } catch {
      return otherwise;
    }
  },
  set(name, value) {
    try {
      localStorage.setItem(`lockstep.${name}`, JSON.stringify(value));
    } catch {
      /* full, or not allowed */
    }
  },
};
