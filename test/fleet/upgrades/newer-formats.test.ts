/**
 * An older version of Fleet on what a newer one has written: each program refuses it before it changes anything, with the exit code of
 * UNSUPPORTED_VERSION, the place, both versions and the next step. Other formats have such a test beside their own: shared/protocol/FORMATS.md.
 */
import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Journal } from "../../../services/runner/journal.ts";
import { readApiKey } from "../../../shared/bus/api-keys.ts";
import { positionIn } from "../../../shared/mirror/position.ts";
import { ERROR_TABLE } from "../../../shared/protocol/errors.ts";
import { PROTOCOL_VERSION, requireProtocol } from "../../../shared/protocol/protocol-version.ts";
import { decode, encode } from "../../../shared/records/kv/codec.ts";
import { systemKeys } from "../../../shared/records/kv/keyspace.ts";
import { readRecord } from "../../../shared/sdk/fleet-home.ts";
import { readNote } from "../../../shared/sdk/spool/places.ts";
import { openStore } from "../../../shared/store/open.ts";
import { testLog } from "../../harness/processes/nats.ts";
import { projectRoot } from "../../harness/project-root.ts";

const REFUSED = ERROR_TABLE.UNSUPPORTED_VERSION.exit;
const PROCESS_MS = 100_000;
const folder = mkdtempSync(join(tmpdir(), "fleet-newer-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const run = (program: string, args: readonly string[], env: Record<string, string>) =>
  spawnSync(process.execPath, [program, ...args], {
    cwd: projectRoot,
    env: { ...process.env, FLEET_OPS_PORT: "0", FLEET_GATEWAY_PORT: "-1", ...env },
    encoding: "utf8",
    timeout: PROCESS_MS,
  });

describe("a store of a newer layout", () => {
  const home = join(folder, "home");
  const newer = { layout: 2, needs: "9.1.0", incarnation: 1, message_key: "00" };
  const key = systemKeys.meta("format");
  const url = `lmdb:${home}/store?shared`;
  beforeAll(async () => {
    mkdirSync(home);
    const store = await openStore(url);
    const write = { label: "test", deadlineMs: 5_000, onUnknown: "safe" } as const;
    await store.transact(write, async (tx) => tx.set(key, encode(newer)));
    await store.close({ drainMs: 0 });
  });
  const unchanged = async () => {
    const store = await openStore(url);
    const { rows } = await store.read({ label: "test", deadlineMs: 5_000 }, (reader) =>
      reader.getRange({ begin: Buffer.from([1]), end: Buffer.from([0x40]) }, { limit: 10 }),
    );
    await store.close({ drainMs: 0 });
    expect(rows.map(({ value }) => decode(value))).toEqual([newer]);
  };

  test.each(["writer", "reader", "coordinator", "watchdog"])(
    "is refused by a %s",
    async (role) => {
      const env = { FLEET_STORE: url, FLEET_URL: "nats://127.0.0.1:1", FLEET_AUTH: "off" };
      const { status, stderr } = run(`services/${role}/main.ts`, [], env);
      expect(stderr).toMatch(
        /written by a newer version of Fleet.*UNSUPPORTED_VERSION.*found=2, supported=1/,
      );
      expect(stderr).toContain("use Fleet 9.1.0 or a newer one; to return to this version, restore a backup");
      expect(status).toBe(REFUSED);
      await unchanged();
    },
    PROCESS_MS,
  );

  test(
    "is refused by a backup, which leaves nothing",
    async () => {
      const target = join(folder, "backup");
      const env = { FLEET_HOME: home, FLEET_STORE: url };
      const { status, stderr } = run("services/standalone/backup/main.ts", ["backup", target], env);
      expect([status, stderr]).toEqual([REFUSED, expect.stringContaining("use Fleet 9.1.0")]);
      expect(readdirSync(folder).filter((name) => name.startsWith("backup"))).toEqual([]);
      await unchanged();
    },
    PROCESS_MS,
  );
});

describe("small files in JSON of a newer format", () => {
  const content = JSON.stringify({ format: 2, url: "nats://127.0.0.1:4222", fleet: "00" });
  const written = (...path: string[]): string => {
    const file = join(folder, ...path);
    mkdirSync(join(file, ".."), { recursive: true });
    writeFileSync(file, content);
    return file;
  };
  const refusal = (read: () => unknown): unknown => {
    try {
      return read();
    } catch (error) {
      return error;
    }
  };

  test.each<[name: string, path: string[], read: (file: string) => unknown]>([
    ["the record of a fleet", ["records", "addresses.json"], () => readRecord(join(folder, "records"))],
    ["the note of a spool", ["spool", "fleet"], () => readNote(join(folder, "spool"))],
    [
      "an API key",
      ["keys", `${"a".repeat(16)}.json`],
      () => readApiKey(join(folder, "keys"), "a".repeat(16)),
    ],
    [
      "the journal of a runner",
      ["agents", "coder-1", "agent.json"],
      () => new Journal(join(folder, "agents"), testLog).all(),
    ],
  ])("%s is refused, and stays", (_, path, read) => {
    const file = written(...path);
    expect(refusal(() => read(file))).toMatchObject({
      exitCode: REFUSED,
      details: { code: "UNSUPPORTED_VERSION", path: file, format: 2, supported: 1 },
      hint: expect.stringContaining("or a newer one"),
    });
    expect(readFileSync(file, "utf8")).toBe(content);
  });

  test(
    "the identity of a fleet stops its start, which begins no other fleet in the home",
    () => {
      const file = written("other", "fleet.json");
      const { status, stderr, stdout } = run("services/standalone/main.ts", [], {
        FLEET_HOME: join(folder, "other"),
      });
      expect(stderr + stdout).toMatch(/a newer version of Fleet wrote a file.*UNSUPPORTED_VERSION.*format=2/);
      expect(status).toBe(REFUSED);
      expect(readFileSync(file, "utf8")).toBe(content);
      expect(existsSync(join(folder, "other", "store", "data.mdb"))).toBe(false);
    },
    PROCESS_MS,
  );

  test("the position of a file mirror is left, and the folder is completed from its beginning", () => {
    const place = { after: "00", entry: "[]" };
    const position = { store: "s", boot: null, written: place, synced: null };
    expect(positionIn(JSON.stringify(position))).toEqual(position);
    expect(positionIn(JSON.stringify({ ...position, format: 2 }))).toBeNull();
  });
});

test("a message has version 1 without a header, and every other version is named in the refusal", () => {
  requireProtocol(undefined);
  requireProtocol(String(PROTOCOL_VERSION));
  for (const [header, code] of [
    [String(PROTOCOL_VERSION + 1), "UNSUPPORTED_VERSION"],
    ["", "INVALID"],
    ["one", "INVALID"],
  ] as const) {
    const field = { path: "Fleet-Protocol", expected: "at most 1", got: header };
    expect(() => requireProtocol(header)).toThrow(expect.objectContaining({ code, fields: [field] }));
  }
});
