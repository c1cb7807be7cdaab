// Which URLs may become links.

const PROTOCOLS = new Set(["http:", "https:", "mailto:"]);

/** The URL in its normal form if a person may follow it (http, https, mailto), else null. */
export function safeUrl(raw) {
  let url;
  try {
    url = new URL(raw);
  } catch {
    return null;
  }
  return PROTOCOLS.has(url.protocol) ? url.href : null;
}
