// `fleet artifact`: files that checkpoints reference by their hash.

import { lstatSync } from "node:fs";
import { type Command, InvalidArgumentError } from "commander";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { CURSOR, limitOption } from "../../input/limit.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { nextPage } from "../../runtime/next-page.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";
import { fileProblem } from "./attachment.ts";

interface ListFlags {
  readonly limit?: number;
  readonly cursor?: string;
}

export function addArtifacts(program: Command, action: ActionFactory): void {
  const group = program
    .command("artifact")
    .description("Store, fetch and verify files that checkpoints reference by their hash.");
  const putCommand = group
    .command("put")
    .summary("Store a file.")
    .description(
      "Store a file and print its reference, for the list `artifacts` of a checkpoint. Without a reference it is removed after the grace time of the fleet.",
    )
    .argument("<file>", "the file")
    .option("--name <name>", "the name for readers (default: that of the file)")
    .option("--media-type <type>", "such as text/plain (default: application/octet-stream)")
    .option("-q, --quiet", "print only the hash")
    .action(action(put));
  withExamples(putCommand, (fleet) => ({
    "A reference for a checkpoint": `${fleet} artifact put report.pdf --media-type application/pdf --json`,
  }));
  const getCommand = group
    .command("get")
    .description(
      "Fetch a file. It appears under its name when its hash is verified. A file of this name is replaced with --force alone.",
    )
    .argument("<sha256>", "the hash of the artifact", hash)
    .requiredOption("-o, --out <file>", "the file to write")
    .option("--force", "replace the file if it exists")
    .action(action(get));
  withExamples(getCommand, (fleet) => ({
    "Fetch an artifact": `${fleet} artifact get $SHA256 --out report.pdf`,
  }));
  addList(group, action);
  const verifyCommand = group
    .command("verify")
    .description("Read all bytes of an artifact and compare them with its hash (exit 8: it is damaged).")
    .argument("<sha256>", "the hash of the artifact", hash)
    .action(action(verify));
  withExamples(verifyCommand, (fleet) => ({
    "Verify an artifact": `${fleet} artifact verify $SHA256`,
  }));
}

function addList(group: Command, action: ActionFactory): void {
  const listCommand = group
    .command("list")
    .description(
      "List the stored artifacts of the tenant, by hash, with the checkpoints that reference them.",
    )
    .addOption(limitOption(LIMITS.artifacts_limit_default, LIMITS.artifacts_limit_max))
    .option("--cursor <cursor>", CURSOR)
    .action(action(list));
  withExamples(listCommand, (fleet) => ({
    "What no checkpoint references": `${fleet} artifact list --json | jq '.artifacts[] | select(.references == [])'`,
  }));
}

function hash(value: string): string {
  if (/^[0-9a-f]{64}$/.test(value)) return value;
  throw new InvalidArgumentError("It must be a SHA-256: 64 digits of 0-9 a-f.");
}

interface PutFlags {
  readonly name?: string;
  readonly mediaType?: string;
  readonly quiet?: boolean;
}

async function put(session: Session, file: string, { name, mediaType, quiet }: PutFlags): Promise<void> {
  const { progressLine, PROGRESS_END } = await import("../../rendering/terminal/progress.ts");
  const client = await session.client();
  const onProgress = (done: number, total: number): void =>
    session.progress(progressLine({ what: "Uploading", done, total }, session.view));
  try {
    const reference = await client.artifacts.put(file, { name, mediaType, onProgress });
    session.progress(PROGRESS_END);
    const { renderReference } = await import("../../rendering/operations/artifact.ts");
    await session.show(reference, () =>
      quiet === true ? reference.sha256 : renderReference(reference, session.view),
    );
  } catch (error) {
    session.progress(PROGRESS_END);
    throw fileProblem(error, file);
  }
}

async function get(
  session: Session,
  sha256: string,
  { out, force }: { readonly out: string; readonly force?: true },
): Promise<void> {
  if (force !== true && lstatSync(out, { throwIfNoEntry: false }) !== undefined)
    throw new UsageError(`${out} exists`, "Name another file, or replace it with --force.");
  const client = await session.client();
  const { bytesText, plain } = await import("../../rendering/terminal/text.ts");
  try {
    const size = await client.artifacts.save(sha256, out);
    await session.show(
      { sha256, size, file: out },
      () => `Written: ${plain(out)} (${bytesText(size)}), verified`,
    );
  } catch (error) {
    throw fileProblem(error, out);
  }
}

async function list(session: Session, { limit, cursor }: ListFlags): Promise<void> {
  const client = await session.client();
  const page = await client.artifacts.list({ ...session.deadline, limit, cursor });
  const { renderArtifacts } = await import("../../rendering/operations/artifact.ts");
  await session.show(page, () => renderArtifacts(page, nextPage(session, page.cursor), session.view));
}

async function verify(session: Session, sha256: string): Promise<void> {
  const client = await session.client();
  const { bytesText } = await import("../../rendering/terminal/text.ts");
  const size = await client.artifacts.verify(sha256);
  await session.show({ sha256, size, ok: true }, () => `Whole: ${bytesText(size)} have this hash`);
}
