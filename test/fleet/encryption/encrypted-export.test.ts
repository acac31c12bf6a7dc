// Encrypted exports of a real fleet: for a receiver with a key pair, for a secret key, as lines and as a bundle; into another tenant; and never half done.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { newEncryptionKeyFile } from "../../../shared/sdk/encryption/key-file.ts";
import { filesWith } from "../../harness/encryption/raw-bytes.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { input } from "../../harness/records/records.ts";
import { clear, fill, smallDisk } from "../../harness/small-disk.ts";
import { callerEnvironment, commandsOf, json } from "../transfer/commands.ts";

/** A busy machine takes seconds for each call. */
const CALLS_MS = 240_000;
const CANARY = "canary-7c1e5a90b2d4f836";

let server: TestFleet;
let folder: string;
let publicKey: string;
const fleet = commandsOf(() => server);
const file = (name: string): string => join(folder, "files", name);
const key = (name: string): string => join(folder, name);
const source = (name: string): string => `file:${key(name)}`;
const names = () => readdirSync(join(folder, "files")).sort();

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "fleet-encrypted-export-"));
  spawnSync("mkdir", [join(folder, "files")]);
  for (const name of ["root.key", "export.key", "other.key"]) newEncryptionKeyFile(key(name));
  server = await startFleet({ FLEET_ENCRYPTION_KEY: source("root.key"), FLEET_GATEWAY_PORT: "-1" });
  const client = await server.client("writer-1");
  for (const name of ["alpha", "beta"]) {
    const task = await client.takeTask(name);
    for (let n = 0; n < 4; n += 1)
      await task.checkpoint(
        input({ goal: `${CANARY} ${n} of ${name}`, pending_items: [`${n}`.repeat(30_000)] }),
      );
  }
  const pair = await json(fleet("keys", "export-key", "--out", key("auditor.key"), "--json"));
  publicKey = pair.public_key as string;
}, CALLS_MS);
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await server?.stop();
}, CALLS_MS);

describe("an export", { timeout: CALLS_MS }, () => {
  test("that is encrypted is private, shows no content, and is verified and imported with the key of any receiver", async () => {
    const path = file("tenant.enc");
    const made = await json(
      fleet(
        "export",
        "--all",
        "--out",
        path,
        "--encrypt-with",
        publicKey,
        "--encrypt-with",
        source("export.key"),
        "--json",
      ),
    );
    expect(made).toMatchObject({ exit: 0, complete: true, tasks: 2 });
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(filesWith(join(folder, "files"), CANARY)).toEqual([]);
    for (const name of ["auditor.key", "export.key"])
      expect(
        await json(fleet("export", "verify", path, "--decrypt-with", source(name), "--json")),
      ).toMatchObject({ exit: 0, ok: true, tasks: 2 });
    const imported = await json(
      fleet("import", path, "--decrypt-with", source("auditor.key"), "--tenant", "copy", "--json"),
    );
    expect(imported).toMatchObject({ exit: 0, imported: ["alpha", "beta"], incomplete: [] });
    const copied = await fleet("export", "--task", "alpha", "--tenant", "copy");
    expect(copied.out).toContain(`${CANARY} 3 of alpha`);
  });

  test("that is encrypted opens to a plain one", async () => {
    await fleet(
      "export",
      "--task",
      "alpha",
      "--out",
      file("alpha.enc"),
      "--encrypt-with",
      source("export.key"),
    );
    const opened = await json(
      fleet(
        "export",
        "open",
        file("alpha.enc"),
        "--decrypt-with",
        source("export.key"),
        "--out",
        file("alpha.jsonl"),
        "--json",
      ),
    );
    expect(opened).toMatchObject({
      exit: 0,
      out: file("alpha.jsonl"),
      bytes: statSync(file("alpha.jsonl")).size,
    });
    expect(statSync(file("alpha.jsonl")).mode & 0o777).toBe(0o600);
    expect((await fleet("export", "verify", file("alpha.jsonl"))).exit).toBe(0);
    const again = await fleet(
      "export",
      "open",
      file("alpha.enc"),
      "--decrypt-with",
      source("export.key"),
      "--out",
      file("alpha.jsonl"),
    );
    expect(again).toMatchObject({ exit: 64, err: expect.stringContaining("exists") });
    const plain = await fleet(
      "export",
      "open",
      file("alpha.jsonl"),
      "--decrypt-with",
      source("export.key"),
      "--out",
      file("x"),
    );
    expect(plain).toMatchObject({ exit: 64, err: expect.stringContaining("is not encrypted") });
    rmSync(file("alpha.jsonl"));
  });

  test("as an encrypted bundle opens to one that the verifier in it accepts", async () => {
    const [path, tar] = [file("bundle.enc"), file("bundle.tar")];
    const made = await json(
      fleet("export", "--all", "--bundle", path, "--encrypt-with", publicKey, "--json"),
    );
    expect(made).toMatchObject({ exit: 0, ok: true, sealed: true });
    expect(filesWith(join(folder, "files"), CANARY)).toEqual([]);
    const sealed = await fleet("export", "verify", path, "--decrypt-with", source("auditor.key"));
    expect(sealed).toMatchObject({ exit: 64, err: expect.stringContaining("fleet export open") });
    await fleet("export", "open", path, "--decrypt-with", source("auditor.key"), "--out", tar);
    expect(await json(fleet("export", "verify", tar, "--json"))).toMatchObject({ exit: 0, ok: true });
    const program = spawnSync("tar", ["-xOf", tar, "verify.mjs"], { maxBuffer: 64 * 1024 * 1024 }).stdout;
    writeFileSync(file("verify.mjs"), program);
    const { status, stdout } = spawnSync(process.execPath, [file("verify.mjs"), tar, "--json"], {
      encoding: "utf8",
    });
    expect([status, JSON.parse(stdout).ok]).toEqual([0, true]);
    rmSync(tar);
    rmSync(file("verify.mjs"));
  });

  test("that is encrypted is refused without its key, cut off, changed or of a newer version, and nothing is imported or written", async () => {
    const path = file("refused.enc");
    await fleet("export", "--all", "--out", path, "--encrypt-with", publicKey);
    const whole = readFileSync(path);
    const changed = Buffer.from(whole);
    changed[changed.length - 9_000] = changed.at(-9_000)! ^ 1;
    const newer = Buffer.from(
      whole.toString("latin1").replace("fleet-encrypted 1\n", "fleet-encrypted 7\n"),
      "latin1",
    );
    const right = ["--decrypt-with", source("auditor.key")];
    const cases: [string, Buffer, string[], number, object][] = [
      [
        "no key",
        whole,
        [],
        65,
        { code: "INVALID", fields: [{ expected: expect.stringContaining("x25519:") }] },
      ],
      [
        "other keys",
        whole,
        ["--decrypt-with", source("other.key")],
        65,
        { message: "none of the given keys opens the file" },
      ],
      [
        "cut off",
        whole.subarray(0, -20_000),
        right,
        8,
        { code: "CORRUPT", message: expect.stringContaining("end of the file") },
      ],
      ["changed", changed, right, 8, { code: "CORRUPT", details: { part: expect.any(Number) } }],
      ["newer", newer, right, 10, { code: "UNSUPPORTED_VERSION", details: { format: 7 } }],
    ];
    for (const [name, bytes, keys, exit, error] of cases) {
      writeFileSync(path, bytes);
      for (const args of [
        ["import", path, "--tenant", "none"],
        ["export", "verify", path],
        ...(keys.length > 0 ? [["export", "open", path, "--out", file("never")]] : []),
      ]) {
        const found = await fleet(...args, ...keys, "--json");
        expect([name, args[0], args[1], found.exit]).toEqual([name, args[0], args[1], exit]);
        expect(JSON.parse(found.err).error).toMatchObject(error);
      }
    }
    expect(names()).not.toContain("never");
    expect(JSON.parse((await fleet("tasks", "--tenant", "none", "--json")).out).tasks).toEqual([]);
    rmSync(path);
  });

  test("that is encrypted is there only when it is whole: not for an existing name, a wrong key, a full disk or a kill", async (context) => {
    const before = names();
    const calls: string[][] = [
      ["--out", file("tenant.enc"), "--encrypt-with", publicKey],
      ["--bundle", file("tenant.enc"), "--encrypt-with", publicKey],
      ["--out", file("new.enc"), "--encrypt-with", "x25519:short"],
      ["--out", file("new.enc"), "--encrypt-with", `file:${key("missing")}`],
      ["--out", file("new.enc"), "--encrypt-with", publicKey, "--resume"],
      ["--encrypt-with", publicKey],
    ];
    for (const call of calls) {
      const { exit, err } = await fleet("export", "--all", ...call);
      expect([call, exit === 0 || err === ""]).toEqual([call, false]);
    }
    expect(names()).toEqual(before);

    const child = spawn(
      process.execPath,
      ["services/cli/main.ts", "export", "--all", "--out", file("killed.enc"), "--encrypt-with", publicKey],
      { cwd: projectRoot, env: { ...process.env, ...callerEnvironment(server) }, stdio: "ignore" },
    );
    const exited = once(child, "exit");
    await expect
      .poll(() => names().some((name) => name.startsWith("killed.enc")) || child.exitCode !== null, {
        interval: 1,
        timeout: 60_000,
      })
      .toBe(true);
    child.kill("SIGKILL");
    await exited;
    expect(filesWith(join(folder, "files"), CANARY)).toEqual([]);
    if (names().includes("killed.enc"))
      expect(
        (await fleet("export", "verify", file("killed.enc"), "--decrypt-with", source("auditor.key"))).exit,
      ).toBe(0);

    const disk = smallDisk(1, context);
    fill(disk, 0.04);
    const full = await fleet("export", "--all", "--out", join(disk, "all.enc"), "--encrypt-with", publicKey);
    expect([full.exit, full.err]).toEqual([69, expect.stringContaining("ENOSPC")]);
    expect(readdirSync(disk)).toEqual(["ballast"]);
    clear(disk);
    expect(
      await fleet("export", "--all", "--out", join(disk, "all.enc"), "--encrypt-with", publicKey),
    ).toMatchObject({
      exit: 0,
      err: "",
    });
  });

  test("that is plain, of an encrypted store, is named so", async () => {
    const plain = await fleet("export", "--task", "alpha", "--out", file("plain.jsonl"), "--json");
    expect(plain.exit).toBe(0);
    expect(JSON.parse(plain.err).warning).toMatchObject({
      code: "EXPORT_PLAIN",
      details: { next: "--encrypt-with" },
    });
    rmSync(file("plain.jsonl"));
    // An agent may not ask for the state of the fleet. It is not warned, and leaves no refused request.
    const agent = await fleet("export", "--task", "alpha", "--agent", "writer-1");
    expect(agent).toMatchObject({ exit: 0, err: "" });
  });
});
