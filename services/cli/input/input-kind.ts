// The kind of standard input, which decides whether a command waits for a document.

import { fstatSync } from "node:fs";

/** A file has an end, a pipe may stay open for ever, a terminal and /dev/null hold no document. */
export type InputKind = "file" | "pipe" | "nothing";

/** The kind of this process's standard input. */
export function inputKind(): InputKind {
  try {
    const stat = fstatSync(0);
    if (stat.isFile()) return "file";
    return stat.isFIFO() || stat.isSocket() ? "pipe" : "nothing";
  } catch {
    return "nothing";
  }
}
