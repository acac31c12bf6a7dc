// The `fleet` command while parts of the fleet are unavailable: a command that is kept looks different from an applied one.

import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  renderLetters,
  renderQueue,
  renderRetriedLetter,
} from "../../../services/cli/rendering/operations/queue.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import { startNats, type TestNats, testLog } from "../../harness/processes/nats.ts";
import { queueMessagesOf } from "../../shared/sdk/queue-messages.ts";
import { callCli } from "./call.ts";
import type { Result } from "./process.ts";
import { view } from "./rendering/view.ts";

const NOWHERE = "nats://127.0.0.1:1";
const home = mkdtempSync(join(tmpdir(), "fleet-cli-outage-"));
const spools = join(home, "spool");
let nats: TestNats;

beforeAll(async () => {
  nats = await startNats();
  const bus = await connectBus({ url: nats.url, name: "test", identity: "test", log: testLog });
  await bus.reconcileStreams(fleetStreams({ storageBytes: 512 * 1024 * 1024 }));
  await bus.close();
});
afterAll(async () => {
  await nats?.stop();
  rmSync(home, { recursive: true, force: true });
});

const fleet = (line: string, env: Record<string, string> = {}): Promise<Result> =>
  callCli(line.split(" "), {
    env: { FLEET_URL: NOWHERE, FLEET_HOME: home, FLEET_SPOOL_DIR: spools, ...env },
  });

const CHECKPOINT = "checkpoint --type qa --phase testing --agent coder --task auth";

test("without a bus, a checkpoint is spooled, listed, and sent by the next call with a bus", async () => {
  const first = await fleet(CHECKPOINT);
  expect(first).toMatchObject({ exit: 0, err: "" });
  expect(first.out).toMatch(
    /^Spooled, not yet sent: checkpoint to be created chk-[0-9a-f-]{36}\nTask: auth\n/,
  );
  const spool = join(spools, "default.coder");
  expect(first.out).toContain(`\nSpool: ${spool}\n`);
  const second = JSON.parse((await fleet(`${CHECKPOINT} --json`)).out);
  expect(second).toMatchObject({
    status: "spooled",
    task_id: "auth",
    spool,
    checkpoint_id: second.command_id,
  });
  const quiet = await fleet(`${CHECKPOINT} --quiet`);
  expect(quiet.out).toMatch(/^chk-[0-9a-f-]{36}\n$/);
  expect(quiet.err).toBe(`warning: not yet applied, but spooled (spool=${spool})\n`);

  const status = await fleet("spool status");
  expect(status).toMatchObject({ exit: 0, err: "" });
  expect(status.out).toMatch(
    /^FLEET +AGENT +TENANT +COMMANDS +SIZE +OLDEST +TASKS +SET ASIDE\nnats:\S+ +coder +default +3 /,
  );
  expect(JSON.parse((await fleet("spool status --json")).out).spools).toMatchObject([
    { agent_id: "coder", tenant: "default", commands: 3, tasks: ["auth"], aside: 0 },
  ]);
  expect(JSON.parse((await fleet("spool status --agent other --json")).out)).toEqual({ spools: [] });
  const stuck = await fleet("spool flush --timeout 200ms");
  expect(stuck).toMatchObject({ exit: 69, err: "" });
  expect(stuck.out).toContain("Incomplete: 0 commands sent, 3 commands left");

  const queued = JSON.parse((await fleet(`${CHECKPOINT} --json`, { FLEET_URL: nats.url })).out);
  expect(queued).toMatchObject({ status: "queued", position: 4 });
  const stored = await queueMessagesOf(nats.url, "auth");
  expect(stored.map(({ body }) => body.command_id)).toEqual([
    first.out.match(/chk-(\S+)/)?.[1],
    second.command_id,
    quiet.out.trim().slice("chk-".length),
    queued.command_id,
  ]);
  // The next call queues its command behind those of the last one.
  const next = await fleet(CHECKPOINT, { FLEET_URL: nats.url });
  expect(next.out).toMatch(/^Queued, not yet applied: checkpoint to be created chk-/);
  expect((await queueMessagesOf(nats.url, "auth")).at(-1)?.body.after).toBe(queued.command_id);
  expect((await fleet("spool status")).out).toBe("No commands wait on this machine.\n");
}, 120_000);

test("flush sends the commands of all agents", async () => {
  await fleet("checkpoint --type qa --phase testing --agent a --task flush");
  await fleet("checkpoint --type qa --phase testing --agent b --task flush");
  const sent = await fleet("spool flush --json", { FLEET_URL: nats.url });
  expect(sent).toMatchObject({ exit: 0, err: "" });
  expect(JSON.parse(sent.out)).toEqual({
    ...{ sent: 2, remaining: 0, aside: 0, damaged: 0 },
    spools: [],
  });
  const agents = (await queueMessagesOf(nats.url, "flush")).map(({ subject }) => subject.split(".")[4]);
  expect(agents.sort()).toEqual(["a", "b"]);
}, 120_000);

test("flush counts the commands that it sends, and a damaged line is no command", async () => {
  for (const task of ["cut", "cut", "other"])
    await fleet(`checkpoint --type qa --phase testing --agent c --task ${task}`);
  const spool = join(spools, "default.c");
  const [file = ""] = readdirSync(spool).filter((name) => readFileSync(join(spool, name)).includes('"cut"'));
  appendFileSync(join(spool, file), "\nthe rest of a line");
  const sent = await fleet("spool flush --json", { FLEET_URL: nats.url });
  const { spools: left, ...counts } = JSON.parse(sent.out);
  expect({ exit: sent.exit, ...counts }).toEqual({ exit: 69, sent: 3, remaining: 0, aside: 0, damaged: 1 });
  expect(left).toMatchObject([{ agent_id: "c", commands: 0, aside: 1, reasons: ["damaged"] }]);
  expect(await queueMessagesOf(nats.url, "cut")).toHaveLength(2);
  // Later calls report what they do themselves.
  await fleet("checkpoint --type qa --phase testing --agent c --task other");
  const again = await fleet("spool flush --agent c", { FLEET_URL: nats.url });
  expect(again).toMatchObject({ exit: 0, out: "Sent: 1 command\n" });
}, 120_000);

test("an invalid command is refused, and a spool that cannot be written is reported", async () => {
  const wrong = await fleet("checkpoint --type qa --phase resting --task auth --json");
  expect(wrong).toMatchObject({ exit: 65, out: "" });
  expect(JSON.parse(wrong.err).error.fields[0].path).toBe("checkpoint.execution_state.phase");
  writeFileSync(join(home, "file"), "");
  const none = await fleet(CHECKPOINT, { FLEET_SPOOL_DIR: join(home, "file") });
  expect(none).toMatchObject({ exit: 69, out: "" });
  expect(none.err).toContain("or set FLEET_SPOOL_DIR");
  for (const line of ["queue status", "queue dead list", "fence check auth 1", "fence take auth"]) {
    expect(await fleet(`${line} --json`), line).toMatchObject({ exit: 69, out: "" });
  }
}, 120_000);

test("the queue and its dead letters, as text", () => {
  const queue = {
    depth: 1_200,
    oldest_age_ms: 65_000,
    bytes: 1_536,
    bytes_max: 3_072,
    left_total: 3,
    dead: 1,
  };
  expect(renderQueue({ ...queue, store: "away" }, view).replaceAll(/ +/g, " ")).toBe(
    [
      "Store: unavailable; commands are queued",
      "Waiting: 1,200 commands, the oldest for 1m 5s",
      "Size: 1.5 KiB of 3 KiB (50%)",
      "Processed: 3 commands",
      "Dead letters: 1",
    ].join("\n"),
  );
  expect(renderLetters({ letters: [], next: undefined, fleet: "fleet" }, view)).toBe("No dead letters.");
  const letter = {
    ...{
      seq: 17,
      stream: "FLEET_QUEUE",
      reason: "fenced",
      tenant: "default",
      agent_id: "a",
      task_id: "auth",
    },
    ...{
      op: "create",
      command_id: "id",
      queued_at: "",
      dead_at: new Date(view.now).toISOString(),
      size_bytes: 9,
      applied_at: null,
    },
    error: { code: "FENCED", message: "another agent \u001b[2Jowns the task", retryable: false },
  } as const;
  const shown = renderLetters(
    { letters: [letter], next: "fleet queue dead list --from 18", fleet: "fleet" },
    view,
  );
  expect(shown).toMatch(
    /^NUMBER +WHEN +AGENT +OP +TASK +REASON +WHAT\n +17 +just now +a +create +auth +fenced +another agent \ufffd\[2Jowns/,
  );
  expect(shown).toContain("more with:\n  fleet queue dead list --from 18\n");
  expect(shown).toContain("`fleet queue dead retry <number>`");
  const applied = { ...letter, applied_at: new Date(view.now).toISOString() };
  expect(renderLetters({ letters: [applied], next: undefined, fleet: "fleet" }, view)).toMatch(
    / fenced +applied in the meantime, just now; the error was: another agent/,
  );
  const retried = { seq: 17, command_id: "id", position: 4 };
  expect(renderRetriedLetter({ ...retried, applied_at: null }, view)).toBe(
    "Back in the queue: letter 17, now at position 4",
  );
  expect(renderRetriedLetter({ ...retried, applied_at: applied.applied_at }, view)).toBe(
    "Back in the queue: letter 17, now at position 4. Another copy of its command was applied just now, so this has no effect",
  );
});
