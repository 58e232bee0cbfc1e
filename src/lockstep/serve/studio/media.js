// A result, shown: a picture as it is, a video with a player that goes frame by frame.

import { button, fill, h } from "./dom.js";
import { factors } from "./fields.js";
import { isVideo, promptOf, store } from "./store.js";

export class FramePlayer extends HTMLElement {
  set(output, label) {
    const rate = output.facts.fps || 8;
    const video = h("video", {
      src: output.url,
      loop: true,
      muted: true,
      playsInline: true,
      controls: true,
      preload: "metadata",
      "aria-label": label,
    });
    const move = (frames) => {
      video.pause();
      video.currentTime = Math.min(Math.max(0, video.currentTime + frames / rate), video.duration || 0);
    };
    fill(
      this,
      video,
      h(
        "div",
        { class: "tools" },
        button("left", () => move(-1), { title: "One frame back", kind: "quiet" }),
        button("right", () => move(1), { title: "One frame on", kind: "quiet" }),
        factors("Speed", [0.25, 0.5, 1, 2], 1, (by) => {
          video.playbackRate = by;
        }),
      ),
    );
    return this;
  }
}

customElements.define("frame-player", FramePlayer);

export function shown(job, output) {
  const label = promptOf(job) || "A result";
  if (isVideo(output)) return document.createElement("frame-player").set(output, label);
  return h("img", { src: output.url, alt: label, width: output.facts.width, height: output.facts.height });
}

/** The place of a picture before it comes: its form, and no more than four times its size. */
export const frameOf = ({ width, height }) => ({
  "--ratio": String((width || 1) / (height || 1)),
  "--most": `${Math.max(384, (width || 256) * 4)}px`,
});

/** A small picture that leads somewhere. */
export function tile(job, output, address, more = {}) {
  const label = promptOf(job) || "A result";
  const inside = isVideo(output)
    ? h("video", {
        src: output.url,
        muted: true,
        playsInline: true,
        preload: "metadata",
        "aria-hidden": "true",
        tabindex: -1,
      })
    : h("img", {
        src: `${output.url}/thumbnail?side=256`,
        alt: "",
        width: 256,
        height: 256,
        loading: "lazy",
        decoding: "async",
      });
  return h(
    "a",
    { class: "tile", href: address, "aria-label": `${label}, seed ${output.facts.seed ?? job.request.seed}`, ...more },
    inside,
  );
}

/** What a job that runs looks like now. */
export function livePicture(job) {
  const address = store.previews.get(job.id);
  return address
    ? h("img", {
        src: address,
        alt: `${promptOf(job)}, on the way`,
        width: job.request.width,
        height: job.request.height,
      })
    : null;
}
