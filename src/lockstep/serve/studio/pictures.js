// A picture as an input: dropped, pasted, chosen or taken from the gallery, and kept by the server at once.

import { ask, send, upload } from "./api.js";
import { button, h, newId, problem } from "./dom.js";

const keepFile = (file) => upload("/api/inputs", file);

/** A result of a job as an input. */
export async function keepOutput(output) {
  const answer = await fetch(output.url, { credentials: "same-origin" });
  return keepFile(await answer.blob());
}

/** A place for one picture. `changed` gets {file, width, height}, or null. */
export function pictureField(label, picture, changed, hint = "Drop, paste or choose a picture") {
  const id = newId("file");
  const take = async (file) => {
    if (!file) return;
    place.classList.add("busy");
    try {
      changed(await keepFile(file));
    } catch (error) {
      problem(error);
    } finally {
      place.classList.remove("busy");
    }
  };
  const input = h("input", {
    id,
    type: "file",
    accept: "image/png,image/jpeg,image/webp",
    class: "sr-only",
    onchange: (event) => take(event.target.files[0]),
  });
  const place = h("div", {
    class: `drop ${picture ? "full" : ""}`,
    ondragover: (event) => {
      event.preventDefault();
      place.classList.add("over");
    },
    ondragleave: () => place.classList.remove("over"),
    ondrop: (event) => {
      event.preventDefault();
      place.classList.remove("over");
      take(event.dataTransfer.files[0]);
    },
    onpaste: (event) => take(event.clipboardData.files[0]),
  });
  if (picture) {
    place.append(
      h("img", { src: `/api/inputs/${picture.file}`, alt: label, width: picture.width, height: picture.height }),
      h(
        "div",
        { class: "drop-text" },
        h("span", {}, label),
        h("span", { class: "muted small" }, `${picture.width} × ${picture.height}`),
      ),
      input,
      h("label", { for: id, class: "button quiet" }, "Change"),
      button("close", () => changed(null), { title: `Remove: ${label}`, kind: "quiet" }),
    );
  } else
    place.append(
      input,
      h("label", { for: id, class: "drop-label" }, h("span", {}, label), h("span", { class: "muted small" }, hint)),
    );
  return place;
}

export const star = (job, output, starred) => send(`/api/jobs/${job.id}/outputs/${output.n}/star`, { starred }, "PUT");
export const manifestOf = (output) => ask(`${output.url}/manifest`);
