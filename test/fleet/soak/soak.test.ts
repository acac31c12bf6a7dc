/** `npm run soak` for some seconds: every part is measured, and a process that leaks is reported. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { projectRoot } from "../../harness/project-root.ts";
import type { Judged } from "../../load/soak/judgement/verdict.ts";

const RUN_MS = 900_000;

interface Soaked {
  readonly code: number | null;
  readonly output: string;
  readonly judged: readonly Judged[];
}

async function soak(args: readonly string[]): Promise<Soaked> {
  const folder = mkdtempSync(join(tmpdir(), "fleet-soak-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const json = join(folder, "soak.json");
  const child = spawn(process.execPath, ["test/load/soak/main.ts", ...args, "--json", json], {
    cwd: projectRoot,
    stdio: ["ignore", "pipe", "pipe"],
  });
  // Interrupted, it stops its fleet.
  onTestFinished(() => void child.kill("SIGTERM"));
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => {
      output += chunk.toString();
    });
  const [code] = (await once(child, "close")) as [number | null];
  expect(code, output).not.toBe(2);
  const { judged } = JSON.parse(readFileSync(json, "utf8")) as { judged: Judged[] };
  return { code, output, judged };
}

const kindsOf = ({ judged }: Soaked, subject: string): string[] =>
  judged.flatMap((one) => (one.subject === subject ? [one.kind] : [])).sort();

const OF_NODE = [
  "anonymous",
  "descriptors",
  "external",
  "handles",
  "live_heap",
  "resident",
  "threads",
] as const;

test(
  "a standalone fleet is measured in all its parts, and a process that leaks memory is reported",
  async () => {
    const args = "--minutes 0.5 --every 1 --warm-up 0.1 --rate 4 --leak memory";
    const soaked = await soak(args.split(" "));
    expect(soaked.code, soaked.output).toBe(1);
    expect(soaked.output).toMatch(/^leaking process: heap after a collection .* grows$/m);
    for (const process of ["fleet", "load", "leaking process"])
      expect(kindsOf(soaked, process), process).toEqual(OF_NODE);
    expect(kindsOf(soaked, "nats-server")).toEqual(["anonymous", "descriptors", "resident", "threads"]);
    expect(kindsOf(soaked, "bus")).toEqual(["connections", "subscriptions"]);
    for (const stream of ["EVENTS", "OFFERS", "QUEUE", "ALERTS", "EXITS", "DEAD"])
      expect(kindsOf(soaked, `stream FLEET_${stream}`)).toEqual(["bytes", "consumers", "messages"]);
    expect(kindsOf(soaked, "store")).toEqual(["free", "readers", "used"]);
    for (const folder of ["store", "nats", "spool"])
      expect(kindsOf(soaked, `folder ${folder}`)).toEqual(["bytes", "files"]);
    for (const family of ["audit", "text", "idem", "checkpoints of tasks that stay"])
      expect(kindsOf(soaked, `store: ${family}`)).toEqual(["bytes", "rows"]);
  },
  RUN_MS,
);
