// The page: what the server knows, shown. All state lives in the server, so a reload shows the same page.
const $ = (id) => document.getElementById(id);
const ENDED = ["done", "failed", "cancelled"];
const cards = new Map(); // job id -> its elements

async function ask(path, options = {}) {
  const answer = await fetch(path, { credentials: "same-origin", ...options });
  const body = answer.status === 204 ? null : await answer.json();
  if (!answer.ok) throw new Error(body.error.message);
  return body;
}

const send = (path, body) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties); // text only: a prompt never becomes HTML
  made.append(...children);
  return made;
}

function card(job) {
  if (cards.has(job.id)) return cards.get(job.id);
  const parts = {
    picture: element("img", { alt: "", width: 256, height: 256, loading: "lazy" }),
    prompt: element("p"),
    bar: element("progress", { max: 1 }),
    state: element("p"),
    cancel: element("button", { type: "button", textContent: "Cancel" }),
  };
  parts.cancel.addEventListener("click", () => send(`/api/jobs/${job.id}/cancel`, {}).catch(say));
  parts.root = element("li", {}, parts.picture, parts.prompt, parts.bar, parts.state, parts.cancel);
  cards.set(job.id, parts);
  $("jobs").prepend(parts.root);
  return parts;
}

function show(job) {
  const parts = card(job);
  const prompt = job.request.inputs.prompt ?? "";
  parts.prompt.textContent = prompt;
  parts.picture.alt = prompt;
  parts.bar.setAttribute("aria-label", `Progress of ${prompt}`);
  const seeds = job.outputs.map((output) => output.facts.seed).filter((seed) => seed !== undefined);
  parts.state.textContent = job.error?.message ?? (seeds.length ? `seed ${seeds.join(", ")}` : job.state);
  parts.bar.hidden = parts.cancel.hidden = ENDED.includes(job.state);
  const made = job.outputs.find((output) => output.media === "image/png");
  if (made) parts.picture.src = `${made.url}/thumbnail?side=256`;
}

function happened(event) {
  const told = JSON.parse(event.data);
  const parts = cards.get(told.job);
  if (told.kind === "step" && parts) parts.bar.value = told.step / told.steps;
  else if (told.kind === "preview" && parts) parts.picture.src = `data:image/png;base64,${told.png}`;
  else if (told.id) ask(`/api/jobs/${told.job}`).then(show, () => {});
}

const say = (problem) => { $("problem").textContent = problem.message; };

async function make(event) {
  event.preventDefault();
  say({ message: "" });
  const number = (id) => ($(id).value === "" ? undefined : Number($(id).value));
  const inputs = { prompt: $("prompt").value, num_inference_steps: number("steps") };
  try {
    show(await send("/api/jobs", { model: $("model").value, inputs, count: number("count"), seed: number("seed") }));
  } catch (problem) {
    say(problem);
  }
}

async function begin() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    await send("/api/session", { token });
    history.replaceState(null, "", "/");
  }
  const known = await ask("/api/catalogue");
  $("model").append(...Object.keys(known.models).map((name) => element("option", { value: name, textContent: name })));
  const held = await ask("/api/jobs");
  held.jobs.reverse().forEach(show);
  const stream = new EventSource(`/api/events?previews=true&after=${held.last_event}`);
  for (const kind of ["queued", "running", ...ENDED, "step", "preview"]) stream.addEventListener(kind, happened);
  stream.onopen = () => { $("status").textContent = `${Object.keys(known.models).length} model(s) ready`; };
  stream.onerror = () => { $("status").textContent = "connecting …"; };
  $("wish").addEventListener("submit", make);
  $("prompt").addEventListener("keydown", (key) => { if (key.ctrlKey && key.key === "Enter") $("wish").requestSubmit(); });
}

begin().catch((problem) => { $("status").textContent = problem.message; });
