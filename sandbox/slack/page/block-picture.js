// Images inside blocks.

import { fileUrl, isOwn } from "./api.js";
import { clip, h } from "./dom.js";
import { plain } from "./text-view.js";

/** An image of this server. Others are named but not fetched: a sandbox must not tell the outside world that somebody looks at it. */
export function picture(source, className) {
  const url = source.image_url ?? slackFile(source.slack_file);
  if (url && isOwn(url)) return h("img", { class: className, src: url, alt: source.alt_text ?? "", loading: "lazy" });
  return h("span", { class: "image-missing" }, "Image not loaded from outside the sandbox: ", plain(source.alt_text || "no alt text"), " ", h("code", {}, plain(clip(url || "no URL", 300))));
}

function slackFile(file) {
  if (!file) return null;
  return file.url ?? fileUrl({ id: file.id, name: "image", url: file.id });
}
