// Turns an id as it is copied into the form in which it is sent. A retry is recognised by its bytes, so a command must
// have one spelling, however its ids were typed. The fleet decides whether a text that looks like an id is one.

import { InvalidArgumentError } from "commander";

const CHECKPOINT_ID = /^chk-|^[0-9a-f]{8}(?:-[0-9a-f]{4}-|….)/i;

export const isLikeCheckpointId = (text: string): boolean => CHECKPOINT_ID.test(text);

/** The parser of an argument. Throws for another word, such as a task: the refusal of the fleet would not say what to call instead. */
export function checkpointId(text: string): string {
  if (!isLikeCheckpointId(text)) throw new InvalidArgumentError("It is no id of a checkpoint.");
  return bareId(text);
}

export function bareId(text: string): string {
  return text.replace(/^chk-/, "").toLowerCase();
}

/** The parser of an option that takes several ids. */
export function collectIds(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, bareId(text)];
}
