/** Tampers whose codes the random ones lead to by luck alone. */
import { line, linesOf, mtimeOf, packed, redigested, rehashed, withFile } from "./forgery.ts";
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

const UNSIGNED = ["export.jsonl", "proofs.jsonl", "keyset.json", "report.html", "manifest.json"];

/** A report, and nothing else: no task, no key and no seal. */
const nothingSigned: Maker = (parts) => {
  const [header, ...others] = linesOf(parts, "export.jsonl");
  const trailer = { ...others.at(-1), tasks: 0 };
  const [{ counts, ...manifest }] = linesOf(parts, "manifest.json");
  const none = Object.fromEntries(Object.keys(counts).map((name) => [name, 0]));
  const files = new Map([...parts].filter(([name]) => UNSIGNED.includes(name)));
  files.set("export.jsonl", Buffer.from(redigested([header, trailer])));
  files.set("proofs.jsonl", Buffer.alloc(0));
  files.set("keyset.json", Buffer.from(line({ keys: [], changes: [], signatures_required: true })));
  files.set("manifest.json", Buffer.from(line({ ...manifest, counts: { ...none, lines: 2 } })));
  return made("nothing is signed", rehashed(files), false);
};

export const plainTampers: readonly (readonly [Maker, number])[] = [
  [digestOfTask, 1],
  [otherFleet, 1],
  [otherFormat, 1],
  [nothingSigned, 1],
];
