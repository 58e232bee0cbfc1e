// A picture as an input: dropped, pasted, chosen or taken from the gallery, and kept by the server at once.

import { ask, send, upload } from "./api.js";
import { button, h, newId, problem } from "./dom.js";

const keepFile = (file) => upload("/api/inputs", file);

/** A result of a job as an input. */
export async function keepOutput(output) {
  const answer = await fetch(output.url, { credentials: "same-origin" });
  return keepFile(await answer.blob());
}

/** A place that takes a file: dropped, pasted or chosen. */
export function dropPlace(accept, take) {
  const chosen = (file) => file && take(file);
  const input = { id: newId("file"), type: "file", accept, class: "sr-only" };
  const place = h(
    "div",
    { class: "drop" },
    h("input", { ...input, onchange: (event) => chosen(event.target.files[0]) }),
  );
  const over = (on) => (event) => {
    event.preventDefault();
    place.classList.toggle("over", on);
  };
  place.addEventListener("dragover", over(true));
  place.addEventListener("dragleave", over(false));
  place.addEventListener("drop", (event) => {
    over(false)(event);
    chosen(event.dataTransfer.files[0]);
  });
  place.addEventListener("paste", (event) => chosen(event.clipboardData.files[0]));
  return { place, id: input.id };
}

export const dropLabel = (id, label, hint) =>
  h("label", { for: id, class: "drop-label" }, h("span", {}, label), h("span", { class: "muted small clip" }, hint));

/** A place for one picture. `changed` gets {file, width, height}, or null. */
export function pictureField(label, picture, changed, hint = "Drop, paste or choose a picture") {
  const { place, id } = dropPlace("image/png,image/jpeg,image/webp", async (file) => {
    place.classList.add("busy");
    try {
      changed(await keepFile(file));
    } catch (error) {
      problem(error);
    } finally {
      place.classList.remove("busy");
    }
  });
  if (!picture) {
    place.append(dropLabel(id, label, hint));
    return place;
  }
  const { file, width, height } = picture;
  place.classList.add("full");
  place.prepend(h("img", { src: `/api/inputs/${file}`, alt: label, width, height }));
  const said = h("span", { class: "muted small" }, `${width} × ${height}`);
  place.append(
    h("div", { class: "drop-text" }, h("span", {}, label), said),
    h("label", { for: id, class: "button quiet" }, "Change"),
    button("close", () => changed(null), { title: `Remove: ${label}`, kind: "quiet" }),
  );
  return place;
}

export const star = (job, output, starred) => send(`/api/jobs/${job.id}/outputs/${output.n}/star`, { starred }, "PUT");
export const manifestOf = (output) => ask(`${output.url}/manifest`);
