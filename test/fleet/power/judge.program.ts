// Opens what power cuts have left. Each line of its input is a {@link Question}; it answers each with one line: a problem, or nothing.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { SpoolFolder } from "../../../shared/sdk/spool/folder.ts";
import { SpoolSeal } from "../../../shared/sdk/spool/seal.ts";
import { SpoolSender } from "../../../shared/sdk/spool/spool-sender.ts";
import { LANES } from "./committed-lanes.ts";
import { openEngineLanes, openStoreLanes } from "./open-lanes.ts";
import { wholeContent } from "./whole-content.ts";

interface Question {
  readonly kind: keyof typeof JUDGES;
  readonly path: string;
  /** What the program had printed before the cut. */
  readonly printed: readonly string[];
}

/** Commits behind the cut: they would use pages that are wrongly free. */
const LATER = 3;
const BYTES_MAX = 64 * 1024 * 1024;

const JUDGES = {
  store: (question: Question) => judgeLanes(question, openStoreLanes),
  engine: (question: Question) => judgeLanes(question, (path) => openEngineLanes(path, { isSynced: true })),
  spool: judgeSpool,
  files: judgeFiles,
};

for await (const line of createInterface(process.stdin)) {
  const question = JSON.parse(line) as Question;
  const problem = await JUDGES[question.kind](question).catch((error: unknown) => {
    const { message, details, cause } = error as Error & { details?: unknown };
    return `${message} ${JSON.stringify(details ?? {})} ${String(cause ?? "")}`;
  });
  process.stdout.write(`${problem.replaceAll("\n", " ")}\n`);
}

async function judgeLanes({ path, printed }: Question, open: typeof openStoreLanes): Promise<string> {
  const lanes = await open(join(path, "store"));
  try {
    for (const lane of LANES) {
      const least = printed.filter((line) => line.startsWith(`${lane} `)).length;
      const found = await lanes.count(lane);
      if (found < least || found > least + 1)
        return `lane ${lane}: ${least} commits acknowledged, ${found} found`;
      for (let n = found + 1; n <= found + LATER; n += 1) await lanes.commit(lane, n);
      if ((await lanes.count(lane)) !== found + LATER) return `lane ${lane}: a later commit is missing`;
    }
    return "";
  } finally {
    await lanes.close();
  }
}

/** Sends the spool as the agent's next process would. Each acknowledged command must be in the queue, or set aside for an operator. */
async function judgeSpool({ path, printed }: Question): Promise<string> {
  const idsOf = (word: string) =>
    printed.flatMap((line) => (line.startsWith(`${word} `) ? [line.split(" ")[1]!] : []));
  const acknowledged = idsOf("spooled");
  const found = new Set(idsOf("queued"));
  const folder = new SpoolFolder(join(path, "state", "spool", "default.agent"), BYTES_MAX);
  const order: string[] = [];
  const sender = new SpoolSender({
    folder,
    clock: systemClock,
    seal: new SpoolSeal(undefined),
    async send({ commandId, body }) {
      if (JSON.parse(Buffer.from(body).toString()).command_id !== commandId)
        throw new Error("a foreign body");
      order.push(commandId);
      return undefined;
    },
    onRemoved: () => {},
    onAside: () => {},
  });
  await sender.run(new AbortController().signal);
  for (const id of order) found.add(id);
  for (const { line } of await folder.aside())
    for (const id of line.match(/(?<="command_id":")[0-9a-f-]{36}/g) ?? []) found.add(id);
  const lost = acknowledged.filter((id) => !found.has(id));
  if (lost.length > 0)
    return `${lost.length} of ${acknowledged.length} acknowledged commands are lost: ${lost[0]}`;
  return (await folder.isEmpty()) ? "" : "the spool is not empty after it was sent";
}

async function judgeFiles({ path, printed }: Question): Promise<string> {
  const count = (word: string) => printed.filter((line) => line.startsWith(`${word} `)).length;
  const read = (name: string) => (existsSync(join(path, name)) ? readFileSync(join(path, name)) : undefined);
  const whole = read("whole");
  const version = whole === undefined ? 0 : Number.parseInt(whole.toString(), 10);
  if (whole !== undefined && !whole.equals(wholeContent(version))) return "a file is not whole";
  if (version < count("whole") || version > count("whole") + 1)
    return `version ${count("whole")} of a file was written, ${version} is found`;
  for (let n = 1; n <= count("once") + 1; n += 1) {
    const once = read(`once-${n}`);
    if (once === undefined ? n <= count("once") : !once.equals(wholeContent(n)))
      return `file ${n} of ${count("once")} is missing or not whole`;
  }
  return "";
}
