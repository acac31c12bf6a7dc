// Sealed commands that may have been sent before they were set aside: they are sent again only while the fleet remembers their ids.

import { randomBytes } from "node:crypto";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, expect, test } from "vitest";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { SpoolFolder } from "../../../../shared/sdk/spool/folder.ts";
import { commandLine } from "../../../../shared/sdk/spool/line.ts";
import { reopenSealed } from "../../../../shared/sdk/spool/reopen.ts";
import { SpoolSeal } from "../../../../shared/sdk/spool/seal.ts";
import { pendingIn } from "../../../../shared/sdk/spool/spool.ts";
import { type Send, SpoolSender } from "../../../../shared/sdk/spool/spool-sender.ts";
import { type ManualClock, manualClock } from "../../../harness/clock.ts";
import { spooled } from "../spool-command.ts";

const DAY = LIMITS.redelivery_ms_max;
const HOUR = 3_600_000;
const BODY = JSON.stringify({ goal: "once" });
const root = mkdtempSync(join(tmpdir(), "fleet-spool-doubt-"));
const withKey = SpoolSeal.of(["env:KEY"], { KEY: randomBytes(32).toString("base64") });
const withoutKey = new SpoolSeal(undefined);
let clock: ManualClock;
let folder: SpoolFolder;
let bodies: string[];
let at = 0;

beforeEach(async () => {
  at += 1;
  folder = new SpoolFolder(join(root, `spool-${at}`), 1024 * 1024);
  clock = manualClock();
  bodies = [];
  const command = spooled("task", { at: clock.now() - HOUR, body: Buffer.from(BODY) });
  await folder.append(commandLine(command, await withKey.sealingKey()));
  await folder.end();
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

const taken: Send = async (command) => void bodies.push(Buffer.from(command.body).toString());
/** The bus has the command, and the answer did not arrive: as after a kill, nothing but the mark knows of it. */
const unanswered: Send = async (command) => {
  await taken(command);
  throw new Error("no answer");
};

function sends(seal: SpoolSeal, send = taken): Promise<boolean> {
  const parts = { folder, clock, seal, send, onRemoved: () => {}, onAside: () => {} };
  return new SpoolSender(parts).run(new AbortController().signal);
}

const reopens = () => reopenSealed(folder.path, withKey, clock);
const setAside = async () => (await folder.aside()).map(({ reason }) => reason);

async function sentAndSetAside(): Promise<number> {
  await expect(sends(withKey, unanswered)).rejects.toThrow("no answer");
  const since = clock.now();
  await clock.advance(HOUR);
  await sends(withoutKey);
  expect(await folder.aside()).toMatchObject([{ reason: "sealed", since }]);
  expect(bodies).toEqual([BODY]);
  return since;
}

test("one that may have been sent is not sent again after a day: it stays aside for an operator", async () => {
  await sentAndSetAside();
  await clock.advance(DAY);
  expect(await reopens()).toEqual({ reopened: 0, sealed: 0, doubtful: 1 });
  expect(await setAside()).toEqual(["doubtful"]);
  expect(await folder.isEmpty()).toBe(true);
  expect(await reopens()).toEqual({ reopened: 0, sealed: 0, doubtful: 0 });
  expect(await setAside()).toEqual(["doubtful"]);
});

test("one that is reopened within a day is sent within it, and set aside after it", async () => {
  const since = await sentAndSetAside();
  expect(await reopens()).toEqual({ reopened: 1, sealed: 0, doubtful: 0 });
  expect(await pendingIn(folder)).toMatchObject({ commands: 1, aside: 0 });
  await clock.advance(since + DAY - clock.now());
  await expect(sends(withKey, async () => Promise.reject(new Error("away")))).rejects.toThrow("away");
  await clock.advance(1);
  await sends(withKey);
  expect(bodies).toEqual([BODY]);
  expect(await setAside()).toEqual(["doubtful"]);
});

test("one that may have been sent is sent again within a day", async () => {
  await sentAndSetAside();
  await reopens();
  await sends(withKey);
  expect(bodies).toEqual([BODY, BODY]);
  expect(await setAside()).toEqual([]);
});

test("one that was never sent is sent after any time", async () => {
  await sends(withoutKey);
  await clock.advance(30 * DAY);
  expect(await reopens()).toEqual({ reopened: 1, sealed: 0, doubtful: 0 });
  await clock.advance(30 * DAY);
  await sends(withKey);
  expect(bodies).toEqual([BODY]);
});

test("a reopening that was killed before the file forgets the command is not repeated after a day", async () => {
  await sends(withoutKey);
  const file = join(folder.path, "aside");
  const before = `${file}.before`;
  // What a kill after the writing to the spool leaves: the file as it was at that moment.
  const append = SpoolFolder.prototype.append;
  SpoolFolder.prototype.append = async function (this: SpoolFolder, line) {
    await append.call(this, line);
    copyFileSync(file, before);
  };
  try {
    await reopens();
  } finally {
    SpoolFolder.prototype.append = append;
  }
  copyFileSync(before, file);
  await sends(withKey);
  expect(bodies).toEqual([BODY]);
  await clock.advance(DAY + 1);
  expect(await reopens()).toEqual({ reopened: 0, sealed: 0, doubtful: 1 });
  await sends(withKey);
  expect(bodies).toEqual([BODY]);
});
