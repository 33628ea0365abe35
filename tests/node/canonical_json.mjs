// Canonical JSON (RFC 8785). The RFC takes over how ECMAScript writes numbers and strings, and how it compares keys, so
// in this language the order of the keys, at every depth, is all that is left to do.

export function canonical(value) {
  if (Array.isArray(value)) {
    return `[${value.map(canonical).join(",")}]`;
  }
  if (value !== null && typeof value === "object") {
    const members = Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`);
    return `{${members.join(",")}}`;
  }
  return JSON.stringify(value);
}
