// Real programs run under a recorder of their writes and syncs. Then the power is cut at many moments of the recording: what was not synced is
// kept, lost or torn. A real process opens what is left, and everything that was acknowledged before the cut must be there.
//
// Each kind of sync that the programs make is needed: without any one of them the same replay finds losses.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { missingIn } from "./recording/completeness.ts";
import type { SyncKind } from "./recording/playback.ts";
import { type Recording, record, recorderMissing } from "./recording/recorder.ts";
import { replay } from "./recording/replay.ts";

/** The states of each recording, and the seed of their choice. */
const CUTS = Number(process.env.FLEET_TEST_POWER_CUTS ?? 120);
const SEED = Number(process.env.FLEET_TEST_POWER_SEED ?? 1);
/** A busy machine takes long for each cut. */
const LIMITS = { timeout: 120_000 + CUTS * 500 };
/** The recorded programs run slowly under their recorder. */
const RECORDING_MS = 300_000;
/** Of a program that does without a sync. */
const BROKEN_CUTS = 200;
/** The store is opened with its threads only once in so many cuts, because that takes longest. */
const STORE_EVERY = 15;

/** On a machine that other programs keep busy, too. */
vi.setConfig({ testTimeout: 600_000, hookTimeout: 600_000 });

const missing = recorderMissing();
if (missing !== undefined) test.skip(`power cuts are not replayed: ${missing}`, () => {});

const programOf = (name: string): string => fileURLToPath(new URL(`${name}.program.ts`, import.meta.url));
const roots: string[] = [];
afterAll(() => {
  for (const root of roots) rmSync(root, { recursive: true, force: true });
});

async function recorded(name: string, folder: string, ...args: readonly string[]): Promise<Recording> {
  const root = mkdtempSync(join(tmpdir(), "fleet-power-"));
  roots.push(root);
  // Run twice: the second process opens what the first one has left.
  const command = '"$@" && "$@"';
  return record(root, command, [process.execPath, programOf(name), join(root, folder), ...args]);
}

/** Which question the judge is asked about each cut. */
type Kind = (cut: number) => string;

/** The losses, with what is needed to repeat the replay. */
async function lossesOf(recording: Recording, kind: Kind): Promise<unknown[]> {
  const losses = await replay(recording, { seed: SEED, cuts: CUTS, kind, program: programOf("judge") });
  return losses.map((loss) => ({ ...loss, seed: SEED }));
}

/** Of programs that do without a sync, a single loss is enough. */
async function expectLoss(recording: Recording, kind: Kind, without?: SyncKind): Promise<void> {
  const options = { seed: SEED, cuts: BROKEN_CUTS, kind, program: programOf("judge"), lossesMax: 1 };
  const losses = await replay(recording, { ...options, ...(without !== undefined && { without }) });
  expect(losses).toHaveLength(1);
}

describe.skipIf(missing !== undefined)("the embedded store after power cuts", LIMITS, () => {
  const kind = (cut: number): string => (cut % STORE_EVERY === 0 ? "store" : "engine");
  let recording: Recording;
  beforeAll(async () => {
    recording = await recorded("commits", "store", "12");
  }, RECORDING_MS);

  test("the recording has every write", () => {
    expect(missingIn(recording)).toEqual({ differing: [], mapped: [join("store", "lock.mdb")] });
  });

  test("has every acknowledged commit, whole and alone", async () => {
    expect(await lossesOf(recording, kind)).toEqual([]);
  });

  test.each<SyncKind>(["of files", "of folders", "of each write"])(
    "without the syncs %s, the same cuts lose commits",
    (without) => expectLoss(recording, kind, without),
  );

  test("an engine that never syncs loses commits", async () => {
    const unsynced = await recorded("commits", "store", "8", "unsynced");
    await expectLoss(unsynced, () => "engine");
  });
});

describe.skipIf(missing !== undefined)("the spool after power cuts", LIMITS, () => {
  let recording: Recording;
  beforeAll(async () => {
    recording = await recorded("spool", join("state", "spool", "default.agent"), "8");
  }, RECORDING_MS);

  test("the recording has every write", () => {
    expect(missingIn(recording)).toEqual({ differing: [], mapped: [] });
  });

  test("sends every acknowledged command, or has set it aside", async () => {
    expect(await lossesOf(recording, () => "spool")).toEqual([]);
  });

  test.each<SyncKind>(["of files", "of folders"])(
    "without the syncs %s, the same cuts lose commands",
    (without) => expectLoss(recording, () => "spool", without),
  );
});

describe.skipIf(missing !== undefined)("files that are written whole, after power cuts", LIMITS, () => {
  let recording: Recording;
  beforeAll(async () => {
    recording = await recorded("whole-files", "", "12");
  }, RECORDING_MS);

  test("are whole, and at least as new as was acknowledged", async () => {
    expect(missingIn(recording)).toEqual({ differing: [], mapped: [] });
    expect(await lossesOf(recording, () => "files")).toEqual([]);
  });

  test.each<SyncKind>(["of files", "of folders"])(
    "without the syncs %s, the same cuts lose files",
    (without) => expectLoss(recording, () => "files", without),
  );
});
