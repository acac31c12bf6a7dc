// The files of an agent that has ended: what the agent put into the place of one of them neither stops the runner nor keeps the others plain.

import { execFileSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type AgentPaths, type AgentRecord, Journal } from "../../../services/runner/journal.ts";
import { fileSealOf } from "../../../shared/sdk/encryption/file-seal.ts";
import { newEncryptionKeyFile } from "../../../shared/sdk/encryption/key-file.ts";
import { testLog } from "../../harness/processes/nats.ts";

const RECORD: AgentRecord = {
  agent_id: "qa-1",
  agent_type: "qa",
  tenant: "default",
  task_id: "task",
  handoff_id: "01900000-0000-7000-8000-000000000001",
  checkpoint_id: "01900000-0000-7000-8000-000000000002",
  offer_digest: "0".repeat(64),
  command_id: "01900000-0000-7000-8000-000000000003",
  launcher: "process",
  first_checkpoint_ms: 900_000,
  traceparent: null,
  created_at: "2026-01-01T00:00:00.000Z",
  state: "reported",
  fence: 1,
  report: null,
};
let folder: string;
let journal: Journal;
let paths: AgentPaths;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "fleet-journal-"));
  const key = join(folder, "machine.key");
  newEncryptionKeyFile(key);
  journal = new Journal(join(folder, "agents"), testLog, await fileSealOf([`file:${key}`], {}));
  journal.open(RECORD, "the prompt");
  paths = journal.paths(RECORD.agent_id);
  writeFileSync(join(paths.folder, "output.log"), "the output");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const PUT: readonly (readonly [string, (path: string, secret: string) => void])[] = [
  ["a folder", (path) => mkdirSync(path)],
  ["a pipe", (path) => void execFileSync("mkfifo", [path])],
  ["a link to another file", (path, secret) => symlinkSync(secret, path)],
  [
    "a file that is too large",
    (path) => {
      writeFileSync(path, "");
      truncateSync(path, 1024 * 1024 * 1024);
    },
  ],
];

test.each(PUT)("%s in the place of the exit note leaves no other file plain", async (_, put) => {
  const secret = join(folder, "secret");
  writeFileSync(secret, '{"reason":"done"}');
  put(paths.exitNote, secret);
  expect(journal.exitNote(RECORD.agent_id)).toBeUndefined();
  await journal.sealReported();
  const names = readdirSync(paths.folder);
  expect(names).toEqual(expect.arrayContaining(["output.log.enc", "prompt.md.enc", "word.json"]));
  for (const name of ["output.log", "prompt.md", "word.json.enc"]) expect(names).not.toContain(name);
  expect(readFileSync(secret, "utf8")).toBe('{"reason":"done"}');
});
