// Labels: `--label key=value`, once for each label.

import { InvalidArgumentError } from "commander";

export type Labels = Readonly<Record<string, string>>;

/** Commander's parser of one label: adds it to those before it. */
export function collectLabel(text: string, before: Labels = {}): Labels {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("Give a label as key=value.");
  // Not by assignment: a label may be called __proto__.
  return Object.fromEntries([...Object.entries(before), [text.slice(0, at), text.slice(at + 1)]]);
}
