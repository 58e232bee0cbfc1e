// The page: signs in, hears what the server says, and shows the view that the address names.

import { send } from "./api.js";
import "./blocks.js";
import "./compare.js";
import "./controls.js";
import { button, fill, h, icon, problem } from "./dom.js";
import { draft } from "./draft.js";
import "./explore.js";
import "./gallery.js";
import { help, listen } from "./keys.js";
import "./make.js";
import "./proofs.js";
import "./queue.js";
import { store } from "./store.js";

const VIEWS = {
  make: "Make",
  gallery: "Gallery",
  picture: "Picture",
  blocks: "Blocks",
  compare: "Compare",
  explore: "Explore",
  proofs: "Proofs",
};
const PARENTS = { picture: "gallery" };
const view = document.getElementById("view");

async function show() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  const wanted = VIEWS[name] ? name : "make";
  let shown = view.firstElementChild;
  if (shown?.localName !== `studio-${wanted}`) {
    shown = document.createElement(`studio-${wanted}`);
    fill(view, shown);
    scrollTo(0, 0);
  }
  document.getElementById("title").textContent = VIEWS[wanted];
  document.title = `${VIEWS[wanted]} · Lockstep`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#/${PARENTS[wanted] ?? wanted}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  try {
    await shown.go?.(rest);
  } catch (error) {
    problem(error);
  }
}

function status() {
  const pill = document.getElementById("status"),
    open = store.open,
    runs = open.find((job) => job.state === "running");
  const known = runs && store.progress.get(runs.id);
  const text = !store.connected
    ? "Connecting"
    : open.length
      ? `${open.length} in the queue${known ? ` · ${known.step}/${known.steps}` : ""}`
      : "Ready";
  pill.classList.toggle("off", !store.connected);
  pill.classList.toggle("busy", store.connected && open.length > 0);
  pill.lastElementChild.textContent = text;
}

const THEMES = { "": "As the system has it", light: "Light", dark: "Dark" };

function theme() {
  const pressed = document.getElementById("theme"),
    root = document.documentElement,
    names = Object.keys(THEMES);
  const say = () => {
    pressed.title = `Theme: ${THEMES[root.dataset.theme ?? ""]}`;
    pressed.setAttribute("aria-label", pressed.title);
  };
  pressed.addEventListener("click", () => {
    const next = names[(names.indexOf(root.dataset.theme ?? "") + 1) % names.length];
    if (next) root.dataset.theme = next;
    else delete root.dataset.theme;
    localStorage.setItem("lockstep.theme", next);
    say();
  });
  say();
}

async function signIn(token) {
  await send("/api/session", { token });
  history.replaceState(null, "", "/");
  await begin();
}

/** A server with a token, and a page without one. */
function askForToken(said) {
  const note = h("p", { class: "form-problem", role: "alert" }, said ?? "");
  const token = h("input", { id: "token", type: "password", autocomplete: "current-password", required: true });
  fill(
    view,
    h(
      "form",
      {
        class: "panel sign-in",
        onsubmit: (event) => {
          event.preventDefault();
          signIn(token.value).catch((error) => {
            note.textContent = error.message;
          });
        },
      },
      h("h2", {}, "This server wants a token"),
      h("p", { class: "muted" }, "It was printed when the server started."),
      h("div", { class: "field" }, h("label", { for: "token" }, "Token"), token),
      note,
      h("div", { class: "actions" }, h("button", { type: "submit", class: "button primary" }, "Sign in")),
    ),
  );
  token.focus();
}

function unreachable(error) {
  fill(
    view,
    h(
      "div",
      { class: "empty-state wide", role: "alert" },
      icon("warn"),
      h("p", { class: "lead" }, "The studio cannot start"),
      h("p", { class: "muted" }, error.message),
      button("again", () => location.reload(), { label: "Try again", kind: "primary" }),
    ),
  );
}

async function begin() {
  try {
    await store.begin();
    await draft.begin();
  } catch (error) {
    return error.status === 401 ? askForToken() : unreachable(error);
  }
  store.hear(["jobs", "step", "status"], status);
  status();
  addEventListener("hashchange", show);
  listen();
  return show();
}

theme();
document.getElementById("keys").addEventListener("click", help);
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
});
const token = new URLSearchParams(location.hash.slice(1)).get("token");
if (token) signIn(token).catch((error) => askForToken(error.message));
else begin();
