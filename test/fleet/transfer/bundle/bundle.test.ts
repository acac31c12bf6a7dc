// `fleet export --bundle`: a bundle of a real fleet, and the verifiers in it, which need no fleet and no installation.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { VERIFIER_FILE, verifierText } from "../../../../shared/transfer/bundle/verifier-file.ts";
import { TimestampAuthority } from "../../../harness/anchors/timestamp-authority.ts";
import { type EvidenceFleet, startEvidenceFleet } from "../../../harness/evidence/evidence-fleet.ts";
import {
  line,
  linesOf,
  mtimeOf,
  packed,
  sha256,
  unpacked,
  withFile,
} from "../../../harness/evidence/forgery.ts";
import { withoutTask } from "../../../harness/evidence/seal-tampers.ts";
import { callCli } from "../../../services/cli/call.ts";

/** A busy machine takes seconds for each call. */
const CALLS_MS = 200_000;
const START_MS = 400_000;
const NOWHERE = { env: { FLEET_URL: "nats://127.0.0.1:1" } };

let fleet: EvidenceFleet;
let folder: string;
const at = (name: string): string => join(folder, name);

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "fleet-bundle-"));
  fleet = await startEvidenceFleet();
}, START_MS);
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await fleet?.stop();
});

const hasPython = spawnSync("python3", ["--version"]).status === 0;
if (!hasPython) process.stderr.write("python3 is not on PATH: verify.py is not tested\n");

/** The bundle was unpacked by `tar`, so the verifiers are the ones that it holds. */
function verify(bundle: string, ...args: string[]) {
  const run = (program: string, file: string) => {
    const { status, stdout, stderr } = spawnSync(program, [at(`unpacked/${file}`), bundle, ...args], {
      encoding: "utf8",
    });
    expect(stderr, file).not.toMatch(/^Traceback|^file:/);
    return { exit: status, out: stdout };
  };
  const found = run(process.execPath, "verify.mjs");
  if (hasPython) expect(run("python3", "verify.py")).toEqual(found);
  return found;
}

const keyArgs = (): string[] => fleet.keys.flatMap((id) => ["--key", id]);

interface Content {
  readonly metadata: { readonly checkpoint_id: string };
}
const objectIn = (text: string): Record<string, unknown> => JSON.parse(text);

describe("a bundle of evidence", { timeout: CALLS_MS }, () => {
  test("the verifier in JavaScript is the one of its sources", () => {
    expect(readFileSync(VERIFIER_FILE, "utf8")).toBe(verifierText());
  });

  test("has everything that both verifiers need, and they agree", async () => {
    await fleet.run("audit", "log", "--out", at("kept.txt"));
    const bundle = at("all.tar");
    const letter = at("letter.txt");
    writeFileSync(letter, "11.100(c): sent");
    const extra = ["--attach", letter, "--checkpoint", at("kept.txt"), "--json"];
    const made = await fleet.run("export", "--all", "--bundle", bundle, ...extra);
    expect(made).toMatchObject({ exit: 0, err: "" });
    expect(statSync(bundle).mode & 0o777).toBe(0o600);
    expect(spawnSync("mkdir", [at("unpacked")]).status).toBe(0);
    expect(spawnSync("tar", ["-xf", bundle, "-C", at("unpacked")]).status).toBe(0);
    expect(readdirSync(at("unpacked")).sort()).toEqual([
      "access.jsonl",
      "anchors.jsonl",
      "attachments",
      "consistency.json",
      "export.jsonl",
      "keyset.json",
      "log.note",
      "manifest.json",
      "proofs.jsonl",
      "report.html",
      "seal.json",
      "verify.mjs",
      "verify.py",
    ]);
    const found = verify(bundle, ...keyArgs(), "--checkpoint", at("kept.txt"), "--json");
    expect(found.exit, found.out).toBe(0);
    const report = JSON.parse(found.out);
    expect(report).toMatchObject({
      ok: true,
      tenant: "default",
      fleet: fleet.client.fleetId,
      keys_compared: true,
      keys: [...fleet.keys].sort(),
      continues: true,
      sealed: true,
      complete: "tenant",
      findings: [],
    });
    expect(report.counts).toMatchObject({
      tasks: 7,
      unsigned: 0,
      pending: 0,
      removed: 2,
      keys: 3,
      key_changes: 9,
    });
    expect(report.counts.included).toBe(report.counts.entries);
    expect(report.counts.signed).toBe(report.counts.entries);
    const lines = readFileSync(at("unpacked/export.jsonl"));
    writeFileSync(at("lines.jsonl"), lines);
    expect((await callCli(["export", "verify", at("lines.jsonl")], NOWHERE)).exit).toBe(0);
    const checked = await callCli(["export", "verify", bundle, ...keyArgs(), "--json"], NOWHERE);
    expect(checked.exit, checked.out).toBe(0);
    const page = readFileSync(at("unpacked/report.html"), "utf8");
    expect(page).toMatch(
      /Electronic signature<\/b> of Ada Lovelace \(ada of http.*\), approval, \d{4}-.*Z \(Europe\/London\)/,
    );
    expect(page).toMatch(/version 1.*Superseded by version 2/);
    expect(page.match(/Superseded by/g)).toHaveLength(1);
    expect(verify(bundle).out.match(/, SUPERSEDED by version 2\b/g)).toHaveLength(1);
    const shown = await callCli(["export", "verify", bundle], NOWHERE);
    expect(shown.out.match(/, which version 2 has superseded/g)).toHaveLength(1);
    expect(page).toContain(createHash("sha256").update(lines).digest("hex"));
    expect(page).not.toMatch(/<script|<b>of<\/b>/i);
  });

  test("names the time and the reason of a revocation wherever it names the key", async () => {
    const bundle = at("all.tar");
    const [revocation, ...others] = JSON.parse(verify(bundle, "--json").out).keys_revoked;
    expect(others).toEqual([]);
    expect(revocation).toMatchObject({ key_id: fleet.keys[1], reason: "compromised" });
    const revoked = `REVOKED at ${revocation.revoked_at} (compromised)`;
    expect(verify(bundle).out).toContain(`signed by key ${fleet.keys[1]}, ${revoked}\n`);
    expect((await callCli(["export", "verify", bundle], NOWHERE)).out).toContain(revoked);
    const page = readFileSync(at("unpacked/report.html"), "utf8");
    expect(page).toContain(`${fleet.keys[1]}, ${revoked}<`);
  });

  test.skipIf(!hasPython)("names a command on its page that prints the content of a checkpoint", () => {
    const lines = readFileSync(at("unpacked/export.jsonl"), "utf8").trimEnd().split("\n").map(objectIn);
    const { metadata } = lines.find(({ kind }) => kind === "checkpoint")!.checkpoint as Content;
    const [, command = ""] = /<pre>(tar .*)<\/pre>/.exec(readFileSync(at("unpacked/report.html"), "utf8"))!;
    const ran = command.replace("BUNDLE.tar", at("all.tar")).replace("CHECKPOINT-ID", metadata.checkpoint_id);
    const { status, stdout, stderr } = spawnSync("sh", ["-c", ran], { encoding: "utf8" });
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    const printed = objectIn(`[${stdout.replaceAll(/^}$/gm, "},").replace(/,\s*$/, "")}]`);
    const versions = lines.filter(
      ({ kind, checkpoint }) =>
        kind === "checkpoint" && (checkpoint as Content).metadata.checkpoint_id === metadata.checkpoint_id,
    );
    expect(printed).toEqual(versions);
  });

  test("says that keys which only the bundle states prove nothing, and refuses others", async () => {
    const unnamed = verify(at("all.tar"));
    expect(unnamed).toMatchObject({
      exit: 0,
      out: expect.stringContaining("only those that the bundle states") as string,
    });
    const [first, ...others] = fleet.keys;
    const some = verify(at("all.tar"), ...others.flatMap((id) => ["--key", id]), "--json");
    expect(some.exit).toBe(8);
    expect(JSON.parse(some.out).findings).toEqual([{ at: `key:${first}`, code: "key_untrusted" }]);
    expect(verify(at("all.tar"), "--key", "x").exit).toBe(64);
    expect(verify(at("nothing.tar")).exit).toBe(65);
    const command = await callCli(["export", "verify", at("all.tar"), "--key", "0".repeat(64)], NOWHERE);
    expect(command).toMatchObject({ exit: 8, out: expect.stringContaining("key_untrusted") as string });
  });

  test("says whose time its time-stamps are", async () => {
    const { authority } = fleet;
    const unnamed = verify(at("all.tar"), ...keyArgs());
    expect(unnamed.exit).toBe(0);
    expect(unnamed.out).toContain("UNVERIFIED: give the certificate of the authority with --tsa-ca");
    const named = verify(at("all.tar"), ...keyArgs(), "--tsa-ca", authority.caFile, "--json");
    expect(named.exit, named.out).toBe(0);
    const report = JSON.parse(named.out);
    expect(report.anchors).toMatchObject([
      { target: "folder", time: "stated" },
      { target: "timestamp", time: "verified" },
    ]);
    // The fleet may have written others since its newest time-stamp.
    expect(report.counts.timestamped).toBeGreaterThan(report.counts.entries / 2);
    const checked = await callCli(["export", "verify", at("all.tar"), "--tsa-ca", authority.caFile], NOWHERE);
    expect(checked).toMatchObject({ exit: 0, out: expect.stringContaining("an authority that you trust") });
    expect(
      await callCli(["export", "verify", at("all.tar"), "--tsa-ca", at("letter.txt")], NOWHERE),
    ).toMatchObject({
      exit: 64,
    });
    expect(verify(at("all.tar"), "--tsa-ca", at("letter.txt")).exit).toBe(65);
    const other = await TimestampAuthority.start();
    try {
      const found = verify(at("all.tar"), "--tsa-ca", other.caFile, "--json");
      const codes = JSON.parse(found.out).findings.map(({ code }: { code: string }) => code);
      expect(new Set(codes)).toEqual(new Set(["timestamp_missing", "timestamp_untrusted"]));
    } finally {
      await other.close();
    }
  });

  test("is recorded in the chain of the tenant, and never replaces a file", async () => {
    const manifest = createHash("sha256")
      .update(readFileSync(at("unpacked/manifest.json")))
      .digest("hex");
    const { out } = await fleet.run("audit", "tenant", "--json");
    const acts = JSON.parse(out).entries.map(({ entry }: { entry: string }) => JSON.parse(entry));
    expect(acts.at(-1)).toMatchObject({ action: "export", subject: { manifest } });
    expect(await fleet.run("export", "--all", "--bundle", at("all.tar"))).toMatchObject({ exit: 64 });
    expect(await fleet.run("export", "--task", "nothing", "--bundle", at("none.tar"))).toMatchObject({
      exit: 4,
    });
    expect(await fleet.run("export", "--task", "auth", "--checkpoint", at("kept.txt"))).toMatchObject({
      exit: 64,
    });
    expect(existsSync(at("none.tar"))).toBe(false);
    expect(readdirSync(folder).filter((name) => name.endsWith(".part"))).toEqual([]);
  });

  test("is refused before it is made where a link to nothing has its name", async () => {
    symlinkSync(at("nowhere.tar"), at("dangling.tar"));
    const acts = async () => JSON.parse((await fleet.run("audit", "tenant", "--json")).out).entries.length;
    const before = await acts();
    const encrypted = ["--encrypt-with", at("auditor.pub")];
    for (const more of [[], encrypted])
      expect(await fleet.run("export", "--all", "--bundle", at("dangling.tar"), ...more)).toMatchObject({
        exit: 64,
        err: expect.stringContaining("dangling.tar exists") as string,
      });
    expect(await acts()).toBe(before);
    expect(existsSync(at("nowhere.tar"))).toBe(false);
  });

  test("is not sealed as complete when newest entries or a task were left out", async () => {
    const { admin } = fleet.client;
    const lines = readFileSync(at("lines.jsonl"), "utf8").trimEnd().split("\n");
    const parsed = lines.map((text) => JSON.parse(text));
    // The fleet allows for clocks that differ by 30 seconds, and these entries are younger.
    const exported_at = new Date(Date.parse(parsed[0].exported_at) + 60_000).toISOString();
    const whole = parsed
      .filter(({ kind }) => kind === "task")
      .map(({ task }) => ({ task_id: task.task_id, seq: task.audit_seq, hash: task.audit_hash }));
    const record = (extent: "tenant" | "tasks", tasks: typeof whole) =>
      admin.recordExport({
        ...{ manifest: "0".repeat(64), tasks: tasks.length, entries: 1 },
        ends: { exported_at, extent, tasks, unreadable: [] },
      });
    const auth = whole.find(({ task_id }) => task_id === "auth")!;
    const begun = parsed.findIndex(({ kind, task }) => kind === "task" && task.task_id === "auth");
    const entries = parsed.slice(begun).filter(({ kind }) => kind === "audit");
    const older = entries.find(({ seq }) => seq === auth.seq - 1);
    const truncated = {
      task_id: "auth",
      seq: older.seq,
      hash: createHash("sha256").update(older.entry).digest("hex"),
    };
    const others = whole.filter(({ task_id }) => task_id !== "auth");
    await expect(record("tasks", [...others, truncated])).rejects.toMatchObject({ code: "INVALID" });
    await expect(record("tasks", [{ ...auth, hash: "1".repeat(64) }])).rejects.toMatchObject({
      code: "INVALID",
    });
    await expect(record("tenant", others)).rejects.toMatchObject({ code: "INVALID" });
    expect(JSON.parse((await record("tasks", others)).entry).subject).toMatchObject({ extent: "tasks" });
    expect(JSON.parse((await record("tenant", whole)).entry).subject).toMatchObject({ extent: "tenant" });
    expect(await fleet.run("export", "--task", "auth", "--bundle", at("one.tar"))).toMatchObject({ exit: 0 });
    expect(JSON.parse(verify(at("one.tar"), ...keyArgs(), "--json").out)).toMatchObject({
      ok: true,
      complete: "tasks",
    });
    // The oldest anchor, as its receiver has kept it. The bundle was made without it.
    const anchors = readFileSync(at("unpacked/anchors.jsonl"), "utf8").trimEnd().split("\n");
    writeFileSync(at("anchor.txt"), JSON.parse(anchors.at(-1)!).checkpoint);
    const continued = verify(at("one.tar"), ...keyArgs(), "--checkpoint", at("anchor.txt"), "--json");
    expect(JSON.parse(continued.out)).toMatchObject({ ok: true, continues: true });
  });

  test("has no seal as complete without a task that its maker calls younger or unreadable", async () => {
    const left = withoutTask(unpacked(readFileSync(at("all.tar"))), "auth");
    const [{ exported_at, counts }] = linesOf(left, "manifest.json");
    const tasks = linesOf(left, "export.jsonl")
      .filter(({ kind }) => kind === "task")
      .map(({ task }) => ({ task_id: task.task_id, seq: task.audit_seq, hash: task.audit_hash }));
    const [block] = linesOf(left, "access.jsonl").slice(-1);
    const record = async (unreadable: readonly string[], time = exported_at) => {
      const access = { exported_at: time, seq: block.seq, hash: sha256(block.entry) };
      const ends = { exported_at: time, extent: "tenant" as const, tasks, unreadable: [...unreadable] };
      const numbers = { tasks: tasks.length, entries: counts.entries };
      const manifest = sha256(left.get("manifest.json")!);
      return fleet.client.admin.recordExport({ ...{ manifest, ...numbers, ends, access } });
    };
    // As if the task were younger than the export.
    await expect(record([], "2000-01-01T00:00:00.000Z")).rejects.toMatchObject({
      code: "INVALID",
      fields: [expect.objectContaining({ path: "exported_at" })],
    });
    const { seq, entry, signature } = await record(["auth"]);
    const forged = withFile(left, "seal.json", line({ seq, entry, signature }));
    writeFileSync(at("forged.tar"), packed(forged, mtimeOf(forged)));
    const found = verify(at("forged.tar"), ...keyArgs(), "--json");
    expect(JSON.parse(found.out)).toMatchObject({
      ...{ ok: false, sealed: false, complete: null },
      findings: [{ at: "seal.json", code: "seal" }],
    });
  });

  test("of one task has no signature, passkey or person of another task", async () => {
    const path = at("auth.tar");
    expect(await fleet.run("export", "--task", "auth", "--bundle", path)).toMatchObject({ exit: 0 });
    const { electronic_signatures: signed } = JSON.parse(verify(path, ...keyArgs(), "--json").out);
    expect(signed).toMatchObject([
      { printed_name: "Ada Lovelace", method: "oidc", reason: "All 😀 tests pass" },
    ]);
    expect(verify(path, ...keyArgs()).out).toMatch(/Ada Lovelace .*, reason: All \? tests pass\n/);
    // `billing` is signed too, also with a passkey.
    const { out } = await fleet.run("signatures", "billing", "--json");
    const { signatures } = JSON.parse(out);
    expect(signatures).toHaveLength(2);
    const own = [...unpacked(readFileSync(path))].filter(([name]) => !name.startsWith("verify."));
    const text = Buffer.concat(own.map(([, bytes]) => bytes)).toString("latin1");
    expect(text).toContain("signature_add");
    for (const other of ["billing", "passkey_", "webauthn"]) expect(text).not.toContain(other);
    for (const one of signatures) expect(text).not.toContain(one.signed.payload);
  });

  test("of another format is refused, and nothing of it is verified", async () => {
    const parts = unpacked(readFileSync(at("all.tar")));
    const [manifest] = linesOf(parts, "manifest.json");
    const older = withFile(parts, "manifest.json", line({ ...manifest, format: 1 }));
    writeFileSync(at("older.tar"), packed(older, mtimeOf(parts)));
    const found = verify(at("older.tar"), ...keyArgs());
    expect(found.exit).toBe(8);
    expect(found.out).toMatch(/another format than this verifier reads \(2\)\. Nothing of it was verified/);
    expect(found.out.match(/FINDING \w+|^ {4}at .*/gm)).toEqual(["FINDING format", "    at manifest.json"]);
    const command = await callCli(["export", "verify", at("older.tar")], NOWHERE);
    expect(command).toMatchObject({
      exit: 8,
      out: expect.stringContaining("of another version of Fleet") as string,
    });
  });

  test("of content with backslashes in its names verifies, after any other content", async () => {
    // nodejs/node#63785: the engine reads the second name as the first one.
    for (const name of ["\\\\srv", "\\srvx"])
      for (let value = 1; value <= 4; value += 1)
        await fleet.client.createCheckpoint({
          taskId: "shares",
          checkpoint: {
            metadata: { agent_type: "qa" },
            execution_state: { phase: "testing" },
            shares: { A: 1, [name]: value },
          },
        });
    const path = at("shares.tar");
    expect(await fleet.run("export", "--task", "shares", "--bundle", path)).toMatchObject({ exit: 0 });
    const found = verify(path, ...keyArgs(), "--json");
    expect(JSON.parse(found.out)).toMatchObject({ ok: true, sealed: true, counts: { versions: 8 } });
  });

  test("of another tenant states keys whose changes it cannot read", async () => {
    const other = await fleet.server.client("writer-2", "other");
    await other.createCheckpoint({
      taskId: "theirs",
      checkpoint: { metadata: { agent_type: "qa" }, execution_state: { phase: "testing" } },
    });
    expect(
      await fleet.run("export", "--all", "--tenant", "other", "--bundle", at("other.tar")),
    ).toMatchObject({ exit: 0 });
    const found = verify(at("other.tar"), ...keyArgs(), "--json");
    expect(found.exit, found.out).toBe(0);
    expect(JSON.parse(found.out)).toMatchObject({
      tenant: "other",
      sealed: true,
      counts: { tasks: 1, key_changes: 0 },
    });
  });
});
