// The folder of events: those that were set aside count too, only the helper that serves the folder puts them back, and one that is gone stops nothing.

import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { readHookConfig } from "../../../services/hook/config.ts";
import { start } from "../../../services/hook/hook.ts";
import { Inbox } from "../../../services/hook/inbox/inbox.ts";
import { listen } from "../../../services/hook/listener.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { testLog } from "../../harness/processes/nats.ts";

const EVENTS_MAX = 5_000;
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "fleet-inbox-"));
  mkdirSync(join(folder, "inbox"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const nameOf = (n: number) => `${String(n).padStart(14, "0")}-1.event`;
const files = () => readdirSync(join(folder, "inbox")).sort();

/** Of the second `n`. */
function put(name: string, n: number): void {
  const path = join(folder, "inbox", name);
  writeFileSync(path, "an event");
  utimesSync(path, n, n);
}

test("events that were set aside count towards the limit, and the oldest of all are dropped", () => {
  const inbox = new Inbox(folder, testLog);
  for (let n = 0; n < EVENTS_MAX; n += 1) put(`${nameOf(n)}.sealed`, n);
  put(nameOf(EVENTS_MAX), EVENTS_MAX);
  put(nameOf(EVENTS_MAX + 1), EVENTS_MAX + 1);
  expect(inbox.names()).toEqual([nameOf(EVENTS_MAX), nameOf(EVENTS_MAX + 1)]);
  expect(files().length).toBe(EVENTS_MAX);
  expect(files()[0]).toBe(`${nameOf(2)}.sealed`);
  inbox.putBack();
  expect(inbox.names().length).toBe(EVENTS_MAX);
});

test("an event that is gone is not set aside, and stops nothing", () => {
  const inbox = new Inbox(folder, testLog);
  inbox.setAside(nameOf(1));
  put(nameOf(2), 2);
  inbox.setAside(nameOf(2));
  expect(files()).toEqual([`${nameOf(2)}.sealed`]);
});

test("a helper that does not serve the folder leaves the events that were set aside", async () => {
  const listener = await listen(folder, async () => "");
  try {
    put(`${nameOf(1)}.sealed`, 1);
    const stop = await start(
      { log: testLog, clock: systemClock },
      readHookConfig({ FLEET_HOOK_DIR: folder }),
    );
    await stop();
    expect(files()).toEqual([`${nameOf(1)}.sealed`]);
  } finally {
    await listener?.stop();
  }
});
