// Files that take their names when they are whole: also where there are no hard links, and nothing decrypted outlives an interrupted call.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, watch, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { newEncryptionKeyFile } from "../../../shared/sdk/encryption/key-file.ts";
import { EncryptedWriter } from "../../../shared/transfer/encryption/encrypted-writer.ts";
import { placeOnce } from "../../../shared/transfer/encryption/place-once.ts";
import { projectRoot } from "../../harness/project-root.ts";

const MIB = 1024 * 1024;
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "fleet-encrypted-files-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const at = (name: string) => join(folder, name);
/** As a file system without hard links answers. */
const refusing = (code: string) => async () => {
  throw Object.assign(new Error(code), { code });
};

test.each(["EPERM", "ENOTSUP", "EOPNOTSUPP"])(
  "a file system that refuses links with %s gets the whole file, and no other is replaced",
  async (code) => {
    writeFileSync(at("draft"), "whole");
    await placeOnce(at("draft"), at("out"), refusing(code));
    expect(readFileSync(at("out"), "utf8")).toBe("whole");
    writeFileSync(at("draft"), "later");
    await expect(placeOnce(at("draft"), at("out"), refusing(code))).rejects.toMatchObject({ code: "EEXIST" });
    expect(readFileSync(at("out"), "utf8")).toBe("whole");
  },
);

test("a file that gets no name leaves none, and other errors are thrown", async () => {
  await expect(placeOnce(at("missing"), at("out"), refusing("EPERM"))).rejects.toMatchObject({
    code: "ENOENT",
  });
  writeFileSync(at("draft"), "whole");
  await expect(placeOnce(at("draft"), at("out"), refusing("EIO"))).rejects.toMatchObject({ code: "EIO" });
  expect(readdirSync(folder)).toEqual(["draft"]);
});

/** Opens the file into the folder `out`, and ends the call when it has begun to write. Returns the signal that ended it; null: it was done before. */
async function openedUntil(signal: NodeJS.Signals, key: string): Promise<NodeJS.Signals | null> {
  rmSync(at("out"), { recursive: true, force: true });
  mkdirSync(at("out"));
  const watcher = watch(at("out"));
  try {
    const child = spawn(
      process.execPath,
      [
        ...["services/cli/main.ts", "export", "open", at("large.enc")],
        ...["--decrypt-with", `file:${key}`, "--out", join(at("out"), "large")],
      ],
      { cwd: projectRoot, env: { ...process.env, HOME: folder }, stdio: "ignore" },
    );
    const exited = once(child, "exit") as Promise<[number | null, NodeJS.Signals | null]>;
    await Promise.race([once(watcher, "change"), exited]);
    child.kill(signal);
    return (await exited)[1];
  } finally {
    watcher.close();
  }
}

test.each(["SIGINT", "SIGTERM"] as const)(
  "`export open` that is ended by %s leaves nothing decrypted",
  async (signal) => {
    const key = at("export.key");
    newEncryptionKeyFile(key);
    const writer = await EncryptedWriter.create(at("large.enc"), { sources: [`file:${key}`], env: {} });
    for (let n = 0; n < 96; n += 1) await writer.write(Buffer.alloc(MIB, n));
    await writer.finish();
    // On a busy machine the file may be whole before the signal is there.
    const isEnded = async () => (await openedUntil(signal, key)) === signal;
    await expect.poll(isEnded, { timeout: 120_000, interval: 100 }).toBe(true);
    expect(readdirSync(at("out"))).toEqual([]);
  },
  180_000,
);
