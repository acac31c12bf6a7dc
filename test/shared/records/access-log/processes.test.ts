/** Several processes write to the access log of one tenant, and one of them is killed in between: one chain, without a gap. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, expect, test } from "vitest";
import { openFormat } from "../../../../shared/records/kv/format.ts";
import { CheckpointRepository } from "../../../../shared/records/repository.ts";
import { openStore } from "../../../../shared/store/open.ts";
import { scrub } from "../../../harness/records/scrub.ts";

const PROGRAM = new URL("./access-writer.program.ts", import.meta.url).pathname;
const BATCHES = 60;
const KILLED_AT = 20;

const folder = mkdtempSync(join(tmpdir(), "fleet-access-"));
const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

/** The last line that a writer printed. */
async function run(url: string, session: string, onBatch: (n: number, child: ChildProcess) => void) {
  const child = spawn(process.execPath, [PROGRAM, url, session, String(BATCHES)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  children.push(child);
  let last = 0;
  const ended = once(child, "exit");
  for await (const line of createInterface({ input: child.stdout! })) {
    if (line === "ready") child.stdin!.write("go\n");
    else {
      last = Number(line);
      onBatch(last, child);
    }
  }
  await ended;
  return last;
}

test("two writers and a killed one leave one valid chain", { timeout: 120_000 }, async () => {
  const url = `lmdb:${join(folder, "store")}?shared`;
  const store = await openStore(url);
  const format = await openFormat(store);
  const repository = new CheckpointRepository({ store, format, finder: "test", now: Date.now });
  const durable = await Promise.all([
    run(url, "a", () => {}),
    run(url, "b", () => {}),
    run(url, "c", (n, child) => {
      if (n === KILLED_AT) child.kill("SIGKILL");
    }),
  ]);
  expect(durable.slice(0, 2)).toEqual([BATCHES, BATCHES]);
  const of = async (actor: string) => {
    let found = 0;
    let cursor: string | undefined;
    do {
      const query = { actor, denied: false, limit: 500, cursor };
      const page = await repository.accessLogs.list("default", query);
      found += page.entries.length;
      cursor = page.cursor;
    } while (cursor !== undefined);
    return found;
  };
  expect([await of("a"), await of("b")]).toEqual([BATCHES, BATCHES]);
  // The batch after the last printed one may have been committed.
  expect([durable[2]!, durable[2]! + 1]).toContain(await of("c"));
  const { findings } = await scrub({ store, repository });
  expect(findings).toEqual([]);
  await store.close({ drainMs: 5_000 });
});
