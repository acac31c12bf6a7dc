/** A story in a file, as a failing seed prints it. */
import { readFileSync } from "node:fs";
import { type Story, storyOf } from "./story.ts";

/** Throws with one line. */
export function readStory(path: string): Story {
  let story: unknown;
  try {
    story = JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`--story takes a file with the JSON of a story, and ${path} has none: ${reason}`);
  }
  const missing = Object.keys(storyOf(1)).filter((name) => !Object.hasOwn(Object(story), name));
  if (missing.length === 0) return story as Story;
  throw new Error(
    `--story takes a file with the JSON of a story, and that in ${path} lacks ${missing.join(", ")}`,
  );
}
