/** Tampers whose codes the random ones lead to by luck alone. */
import { line, linesOf, mtimeOf, packed, rehashed, withFile } from "./forgery.ts";
import { type Maker, made } from "./tampers.ts";

/** The digest of a task is that of other lines. */
const digestOfTask: Maker = (parts, random) => {
  const lines = linesOf(parts, "export.jsonl");
  const ends = lines.filter(({ kind }) => kind === "task_end");
  ends[random(ends.length)].digest = "0".repeat(64);
  return made("digest of a task", rehashed(withFile(parts, "export.jsonl", lines.map(line).join(""))));
};

/** The manifest names another fleet than the export. */
const otherFleet: Maker = (parts) => {
  const [manifest] = linesOf(parts, "manifest.json");
  const changed = withFile(parts, "manifest.json", line({ ...manifest, fleet: "another" }));
  return made("fleet of the manifest", packed(changed, mtimeOf(parts)), false);
};

/** The manifest states the format of an earlier version of Fleet. */
const otherFormat: Maker = (parts) => {
  const [manifest] = linesOf(parts, "manifest.json");
  const changed = withFile(parts, "manifest.json", line({ ...manifest, format: 1 }));
  return made("format of the manifest", packed(changed, mtimeOf(parts)));
};

export const plainTampers: readonly (readonly [Maker, number])[] = [
  [digestOfTask, 1],
  [otherFleet, 1],
  [otherFormat, 1],
];
