/** A watchdog is killed between an anchor and its record: the next one makes no second line, and no time-stamp is missing. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startAnchorer } from "../../../../services/watchdog/anchors/anchorer.ts";
import { newSigningKeyPem, signingKeyFrom } from "../../../../shared/integrity/dsse.ts";
import { openFormat } from "../../../../shared/records/kv/format.ts";
import { createLeaderLeases } from "../../../../shared/records/leader/leader-lease.ts";
import { systemClock } from "../../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../../shared/runtime/observability/metrics.ts";
import { openStore } from "../../../../shared/store/open.ts";
import type { Store } from "../../../../shared/store/store.ts";
import { TimestampAuthority } from "../../../harness/anchors/timestamp-authority.ts";
import { testLog } from "../../../harness/processes/nats.ts";
import { create } from "../../../harness/records/records.ts";
import { register, repositoryOn, storeSignedBy } from "../../../harness/records/signed.ts";
import { appendAll } from "../../../shared/records/audit-log/logs.ts";
import { anchorsIn, linesOf } from "./anchors.ts";

const PROGRAM = join(import.meta.dirname, "anchorer.program.ts");
const SOON = { timeout: 60_000, interval: 20 };

async function on<T>(url: string, work: (store: Store) => Promise<T>): Promise<T> {
  const store = await openStore(url);
  try {
    return await work(store);
  } finally {
    await store.close({ drainMs: 5_000 });
  }
}

async function writeLog(raw: Store): Promise<void> {
  const format = await openFormat(raw);
  const key = signingKeyFrom(newSigningKeyPem());
  const store = storeSignedBy(raw, key);
  await register(store, key);
  await create(repositoryOn(store, { format }));
  await appendAll(store);
}

/** Resolves with the signal that ended it, when both targets have made their anchor. */
async function killedBetween(args: readonly string[]): Promise<NodeJS.Signals | null> {
  const child = spawn(process.execPath, [PROGRAM, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  let printed = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    printed += chunk;
    if (printed.split("\n").length > 2) child.kill("SIGKILL");
  });
  return new Promise((resolve) => child.once("close", (_code, signal) => resolve(signal)));
}

test("an anchor without its record is made again, once", { timeout: 120_000 }, async () => {
  const above = mkdtempSync(join(tmpdir(), "fleet-killed-"));
  const [url, folder] = [`lmdb:${above}/store`, join(above, "kept")];
  const authority = await TimestampAuthority.start();
  try {
    await on(url, writeLog);
    expect(await killedBetween([url, folder, authority.url])).toBe("SIGKILL");
    expect(linesOf(folder)).toHaveLength(1);
    expect(authority.requests).toHaveLength(1);
    await on(url, async (store) => {
      expect(await anchorsIn(store, "folder")).toEqual([]);
      const leases = createLeaderLeases(store, "next", () => Date.now());
      const context = { store, leases, clock: systemClock, log: testLog, metrics: createMetrics() };
      const stop = startAnchorer(context, {
        folder,
        bucket: null,
        timestamps: { url: authority.url, authorities: [authority.ca] },
        everyMs: 3_600_000,
      });
      try {
        await expect.poll(() => anchorsIn(store, "folder"), SOON).toHaveLength(1);
        await expect.poll(() => anchorsIn(store, "timestamp"), SOON).toHaveLength(1);
      } finally {
        await stop();
      }
      const [line] = linesOf(folder);
      expect(linesOf(folder)).toHaveLength(1);
      expect(await anchorsIn(store, "folder")).toMatchObject([
        { at: line!.at, checkpoint: line!.checkpoint },
      ]);
      expect(authority.requests).toHaveLength(2);
    });
  } finally {
    await authority.close();
    rmSync(above, { recursive: true, force: true });
  }
});
