// `fleet export --bundle` is killed: nothing has the name of the bundle before it is whole and on the disk, and a repeated call makes it.

import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifyBundle } from "../../../../shared/transfer/bundle/offline/bundle-verifier.ts";
import { startFleet, type TestFleet } from "../../../harness/processes/fleet.ts";
import { input } from "../../../harness/records/records.ts";
import { callCli } from "../../../services/cli/call.ts";
import { environment } from "../../../services/cli/process.ts";

/** A busy machine takes seconds for each call. */
const CALLS_MS = 200_000;
const PROGRAM = join(import.meta.dirname, "killed-export.program.ts");

let fleet: TestFleet;
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "fleet-killed-export-"));
  fleet = await startFleet({ FLEET_GATEWAY_PORT: "-1", FLEET_SCRUB_EVERY: "off" });
  const client = await fleet.client();
  for (let n = 0; n < 5; n += 1)
    await client.createCheckpoint({ taskId: "auth", checkpoint: input({ goal: `goal ${n}` }) });
}, CALLS_MS);
afterAll(async () => {
  await fleet?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const env = () => ({
  FLEET_URL: fleet.url,
  FLEET_HOME: fleet.home,
  FLEET_SPOOL_DIR: join(fleet.home, "spool"),
});

function killedAt(moment: string, number: number, bundle: string): void {
  const args = [PROGRAM, moment, String(number), "export", "--all", "--bundle", bundle];
  const run = spawnSync(process.execPath, args, { env: environment(env()), encoding: "utf8" });
  expect({ signal: run.signal, moment, number }, run.stderr).toMatchObject({ signal: "SIGKILL" });
}

const partsOf = (bundle: string): string[] =>
  readdirSync(folder).filter(
    (name) => join(folder, name) !== bundle && join(folder, name).startsWith(bundle),
  );

test.each([
  ["write", 1],
  ["write", 12],
  ["write", 30],
  ["sync", 1],
  ["link", 1],
])(
  "at %s %i there is no bundle, and the next call makes one",
  { timeout: CALLS_MS },
  async (moment, number) => {
    const bundle = join(folder, `${moment}-${number}.tar`);
    killedAt(moment, number, bundle);
    expect(existsSync(bundle)).toBe(false);
    expect(partsOf(bundle)).toEqual([expect.stringMatching(/\.part$/)]);
    expect(await callCli(["export", "--all", "--bundle", bundle], { env: env() })).toMatchObject({ exit: 0 });
    expect(verifyBundle(bundle, { keys: null, kept: null })).toMatchObject({ ok: true, sealed: true });
  },
);

test("after its name was made, the bundle is whole", { timeout: CALLS_MS }, async () => {
  const bundle = join(folder, "linked.tar");
  killedAt("linked", 1, bundle);
  expect(verifyBundle(bundle, { keys: null, kept: null })).toMatchObject({ ok: true, sealed: true });
  expect(await callCli(["export", "verify", bundle], { env: env() })).toMatchObject({ exit: 0 });
  expect(await callCli(["export", "--all", "--bundle", bundle], { env: env() })).toMatchObject({ exit: 64 });
});
