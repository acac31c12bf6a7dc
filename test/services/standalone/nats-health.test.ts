/** After a full disk, a nats-server refuses every write until it restarts. The supervisor restarts it once there is room. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { natsHealth } from "../../../services/standalone/nats/health.ts";
import { superviseNatsServer } from "../../../services/standalone/nats/supervisor.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { testLog } from "../../harness/processes/nats.ts";
import { projectRoot } from "../../harness/project-root.ts";

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

test("after a full disk, publishing recovers without an operator, and nothing stored is lost", async (context) => {
  const folder = mkdtempSync(join(tmpdir(), "fleet-nats-full-"));
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=160m", "tmpfs", folder], { stdio: "ignore" });
  } catch {
    return context.skip("a small file system cannot be mounted here");
  }
  cleanups.push(() => execFileSync("umount", ["--lazy", folder]));
  const dir = join(folder, "nats");
  const supervised = await superviseNatsServer({
    root: projectRoot,
    env: process.env,
    dir,
    port: -1,
    log: testLog,
  });
  cleanups.push(() => supervised.stop());
  const bus = await connectBus({ url: supervised.url, name: "x", identity: "x", log: testLog });
  cleanups.push(() => bus.close());
  await bus.reconcileStreams(fleetStreams({ storageBytes: supervised.current().storeBytesMax }));
  const subject = SUBJECTS.event("default", "CHECKPOINT_CREATED", "t");
  const publish = (id: string) =>
    bus.publishDurable(subject, { body: Buffer.alloc(20_000) }, { messageId: id, timeoutMs: 700 });

  expect((await publish("before")).seq).toBe(1);
  const { bavail, bsize } = statfsSync(folder);
  writeFileSync(join(folder, "ballast"), Buffer.alloc(bavail * bsize));
  await expect(publish("full")).rejects.toThrow();
  const first = supervised.current();
  expect(await natsHealth(first, dir), "while there is no room, a start would only fail").toBe("unwritable");

  rmSync(join(folder, "ballast"));
  await vi.waitFor(() => expect(supervised.current().pid).not.toBe(first.pid), {
    timeout: 20_000,
    interval: 50,
  });
  await vi.waitFor(async () => expect((await publish("after")).stream).toBe("FLEET_EVENTS"), {
    timeout: 20_000,
  });
  expect((await publish("before")).duplicate).toBe(true);
  expect(await natsHealth(supervised.current(), dir)).toBe("ok");
}, 60_000);
