// A reader who tries the documents from top to bottom, and then once more: each example works as the text says, on one fleet
// with one store. API.md and RUNBOOK.md have tests of their own, because their examples need situations of their own.

import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort } from "../../harness/free-port.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { makeDeadLetters } from "./dead-letters.ts";
import { commandsOf, type DocumentedCommand } from "./documented-commands.ts";
import { runLine, runUntilInterrupted, writePrograms } from "./shell.ts";

const DOCUMENT_MS = 600_000;
/** A busy machine takes seconds for what a command waits for, such as an offer, the next signing key or a file of the mirror. */
const PATIENT = "--timeout 60s";

/** In the order in which a newcomer reads them. */
const DOCUMENTS = [
  "README.md",
  "services/cli/README.md",
  "shared/sdk/README.md",
  "services/hook/README.md",
  "services/runner/README.md",
  "services/signer/README.md",
];

/** What each program prints, in the order of its document. A task that has ended stays ended. */
const PRINTED: Readonly<Record<string, readonly RegExp[]>> = {
  "README.md": [/^(completed|already_ended) [0-9a-f-]{36}$/m],
  "shared/sdk/README.md": [
    /^(completed|already_ended)$/m,
    /^. pass 1$/m,
    /^chk-[0-9a-f-]{36} 20\S+Z \[\]\n$/,
    /^committed [0-9a-f-]{36}\n$/,
    /^coverage\.txt 98 %\n$/,
    /write test\/toggle\.test\.ts/,
    /^dispatch-1 Sales first The board meets at noon\.\n$/,
    /^\d+ \d+ \d+\n$/,
  ],
};

/** Lines that another test runs, because they need a set-up, a container engine or a certificate. */
const TRIED_BY: Readonly<Record<string, string>> = {
  // Two persons are needed.
  "fleet task shred auth --reason erasure --case DSR-42": "test/fleet/cli/prune.test.ts",
  "fleet task shreds --state requested": "test/fleet/cli/prune.test.ts",
  "fleet task shred-approve auth": "test/fleet/cli/prune.test.ts",
  "fleet task shred-cancel auth": "test/fleet/cli/prune.test.ts",
  "fleet task shred-certificate auth --out auth.json": "test/fleet/retention/shred-two-persons.test.ts",
  "fleet task shred-verify auth.json": "test/fleet/retention/shred-two-persons.test.ts",
  "npm run demo": "test/fleet/demo.test.ts",
  "docker compose --profile single up --build --wait fleet": "test/fleet/compose.test.ts",
  "docker compose cp fleet:/data/client .fleet": "test/fleet/compose.test.ts",
  "docker compose exec -T fleet node deploy/local/fleet.mjs access issue --agent coder-7 > coder-7.creds":
    "test/fleet/compose.test.ts",
  "FLEET_URL=tls://localhost:4222 FLEET_NATS_CA=.fleet/ca.pem FLEET_NATS_CREDS=coder-7.creds node agent.js":
    "test/fleet/compose.test.ts",
  'ln -s "$PWD/deploy/local/fleet.mjs" ~/.local/bin/fleet': "test/deploy/local/fleet.test.ts",
  "fleet access init cluster --streams .fleet/nats": "test/fleet/adopted-streams.test.ts",
  "FLEET_NATS_HOST=0.0.0.0 FLEET_NATS_SERVER_CERT=fleet.pem FLEET_NATS_SERVER_KEY=fleet.key FLEET_NATS_SERVER_NAME=fleet.example.org FLEET_NATS_CA=ca.pem fleet up":
    "test/fleet/listener.test.ts",
  "FLEET_URL=tls://fleet.example.org:4222 FLEET_NATS_CA=ca.pem FLEET_NATS_CREDS=coder-7.creds node agent.js":
    "test/fleet/listener.test.ts",
  // What it finds depends on the machine.
  "fleet doctor": "test/fleet/doctor/doctor.test.ts",
  "fleet doctor --json": "test/fleet/doctor/doctor.test.ts",
  // An entry is in the log some seconds after it was written.
  "fleet audit log --out checkpoint.txt": "test/fleet/signing/audit-log.test.ts",
  "fleet audit prove auth 1 --out receipt.json": "test/fleet/signing/audit-log.test.ts",
  "fleet audit check receipt.json": "test/fleet/signing/audit-log.test.ts",
  "fleet audit anchors --out evidence": "test/fleet/signing/audit-anchors.test.ts",
  "fleet audit consistent checkpoint.txt": "test/fleet/signing/audit-log.test.ts",
  // A person logs in.
  "fleet sign auth --meaning approval": "test/fleet/esign/esign.test.ts",
  "fleet sign auth --meaning approval --with passkey": "test/fleet/esign/passkey-browser.test.ts",
  "fleet signers revoke SUBJECT --reason left": "test/fleet/esign/esign.test.ts",
  "fleet signers revoke-passkey ID --reason lost": "test/fleet/esign/passkeys.test.ts",
  "fleet agents restart AGENT": "test/fleet/sessions/tmux.test.ts",
  "fleet agents ask AGENT": "test/fleet/sessions/tmux.test.ts",
  "fleet mcp": "test/services/mcp/mcp.test.ts",
  "fleet import auth.jsonl --dry-run --tenant staging": "test/fleet/transfer/import.test.ts",
  "fleet import auth.jsonl --tenant staging": "test/fleet/transfer/import.test.ts",
  "fleet import langgraph --sqlite checkpoints.db": "test/fleet/transfer/langgraph-import.test.ts",
  "PGPASSWORD=secret fleet import langgraph --postgres postgres://reader@localhost/graphs":
    "test/fleet/transfer/postgres-import.test.ts",
  "npm install ./fleet-0.1.0.tgz": "test/deploy/package/package.test.ts",
  "fleet access init --signer cluster": "test/fleet/cluster-runner.test.ts",
  "nats-server -c cluster/nats.conf": "test/fleet/cluster-runner.test.ts",
  "FLEET_NATS_CREDS=cluster/signer.creds FLEET_SIGNER_KEYS=cluster/signer.keys FLEET_SIGNER_CONFIG=signer.json node services/signer/main.ts":
    "test/fleet/cluster-runner.test.ts",
  "FLEET_NATS_TOKEN_FILE=token.jwt FLEET_AGENT_ID=coder-7 node agent.js": "test/services/signer.test.ts",
};

interface Block {
  readonly language: "sh" | "ts";
  readonly text: string;
}

let fleet: TestFleet;
let folder: string;
const notRun = new Set<string>();

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "fleet-documents-"));
  // A model's own program, which reads the prompt and changes nothing.
  writePrograms(join(folder, "bin"), { npx: 'exec "$@"', claude: "cat > /dev/null" });
  fleet = await startFleet();
});
afterAll(async () => {
  await fleet?.stop();
  rmSync(folder, { recursive: true, force: true });
});

function blocksOf(path: string): Block[] {
  const page = readFileSync(join(projectRoot, path), "utf8");
  const found = page.matchAll(/^ *```(sh|ts)\n(.*?)^ *```$/gms);
  return [...found].map(([, language, text = ""]) => ({ language: language as Block["language"], text }));
}

const settingsIn = (path: string): string[] =>
  [...readFileSync(join(projectRoot, path), "utf8").matchAll(/^```json\n(.*?)^```/gms)].map(
    ([, text = ""]) => text,
  );

/** A reader's terminal: a folder, and the variables that were set in it. */
class Terminal {
  readonly #cwd: string;
  readonly #variables: Record<string, string> = {};
  readonly #ports = new Map<string, string>();

  constructor(cwd: string) {
    this.#cwd = cwd;
    mkdirSync(cwd);
    for (const name of ["deploy", "node_modules", "services", "shared"])
      symlinkSync(join(projectRoot, name), join(cwd, name));
  }

  get #place() {
    const path = [join(folder, "bin"), dirname(process.execPath), process.env.PATH].join(delimiter);
    const own = {
      FLEET_HOME: fleet.home,
      FLEET_OPS_PORT: "0",
      FLEET_STOP_TIMEOUT: "60s",
      XDG_STATE_HOME: join(folder, "state"),
      PATH: path,
    };
    return { cwd: this.#cwd, env: { ...own, ...this.#variables } };
  }

  async run(documented: DocumentedCommand): Promise<void> {
    const command = await this.#filled(documented.command.replace(/^npx /, ""));
    const [, name = "", call = command] = /^([A-Z]+)=\$\((.*)\)$/.exec(command) ?? [];
    const run = documented.isInterrupted ? runUntilInterrupted : runLine;
    const { exit, out, err } = await run(
      call.replaceAll(/\bfleet (?=[a-z])/g, `fleet ${PATIENT} `),
      this.#place,
    );
    // In full: the line of a failed assertion cuts long values.
    const report = `${command}\nended with ${exit}, documented: ${documented.exit}\n--- output\n${out}\n--- errors\n${err}`;
    expect(exit, report).toBe(documented.exit);
    for (const quoted of documented.prints) expect(out + err, report).toContain(quoted);
    if (name !== "") this.#variables[name] = out.trim();
    const [, task] = /^fleet recovery (?:start|run|reset) ([a-z]+)(?!.*--dry-run)/.exec(call) ?? [];
    if (task !== undefined) await offered(task);
  }

  /** The command with the values of this fleet in place of its address, its variables and the words in capitals. */
  async #filled(command: string): Promise<string> {
    let filled = command.replaceAll("nats://127.0.0.1:4222", fleet.url);
    for (const [port] of filled.matchAll(/\b(?:[59]222|9284)\b/g)) {
      if (!this.#ports.has(port)) this.#ports.set(port, String(await freePort()));
      filled = filled.replaceAll(port, this.#ports.get(port) ?? "");
    }
    for (const [variable, name = ""] of filled.matchAll(/\$([A-Z]+)\b/g))
      filled = filled.replaceAll(variable, this.#variables[name] ?? variable);
    for (const [name] of filled.matchAll(/(?<= )(ALERT|LETTER|OTHER|SPOOL)\b/g))
      filled = filled.replace(name, await VALUES[name as keyof typeof VALUES]());
    return filled;
  }

  /** The settings of runners, as the document has them, with the folder of its agent here. */
  writeSettings(files: readonly string[]): void {
    writePrograms(join(this.#cwd, "qa"), { "qa-agent": "cat > /dev/null" });
    for (const [n, text] of files.entries()) {
      const name = n === 0 ? "runner.json" : `runner-${n + 1}.json`;
      writeFileSync(join(this.#cwd, name), text.replace("/srv/qa", join(this.#cwd, "qa")));
    }
  }

  async runProgram(text: string): Promise<string> {
    const file = join(projectRoot, `.documented-${process.pid}.ts`);
    writeFileSync(file, text);
    try {
      const { cwd: _, env } = this.#place;
      const place = { cwd: projectRoot, env: { ...env, FLEET_AGENT_ID: "documented" } };
      const { exit, out, err } = await runLine(`node ${file}`, place);
      expect(exit, `the program ended with ${exit}\n${text}\n--- output\n${out}\n--- errors\n${err}`).toBe(0);
      return out;
    } finally {
      rmSync(file);
    }
  }
}

/** A reader is slower than the watchdog, which makes the attempt. */
async function offered(task: string): Promise<void> {
  const client = await fleet.client();
  const state = async () => (await client.handoffOf(task))?.state;
  await expect.poll(state, { timeout: 60_000, interval: 50 }).toBe("offered");
}

/** The values of the words in capitals, as the list before the command shows them. */
const VALUES = {
  async ALERT() {
    const client = await fleet.client();
    return (await client.admin.listAlerts({ taskId: "pay" })).alerts[0]?.alert.id ?? "no alert";
  },
  LETTER: () => letter(),
  OTHER: () => letter(),
  SPOOL: () => spoolOfDeletedFleet(),
};

async function letter(): Promise<string> {
  const [newest] = await makeDeadLetters(fleet, { tenant: "default", task: "auth", count: 1 });
  return String(newest);
}

/** A fleet was asked while it was down, and was then deleted. Its spool has its identity. */
async function spoolOfDeletedFleet(): Promise<string> {
  const home = mkdtempSync(join(folder, "home-"));
  const deleted = await startFleet({}, { home });
  await deleted.terminate();
  const env = { FLEET_HOME: home, XDG_STATE_HOME: join(folder, "state") };
  const state = "--type qa --phase testing --pending all";
  const { exit, err } = await runLine(`fleet checkpoint -t late ${state}`, { cwd: folder, env });
  expect(exit, `fleet checkpoint -t late ended with ${exit}: ${err}`).toBe(0);
  const { out } = await runLine("fleet spool status --json", { cwd: folder, env });
  const { spools } = JSON.parse(out) as { spools: { home: string; fleet: string }[] };
  rmSync(home, { recursive: true });
  return spools.find((spool) => spool.home === home)?.fleet ?? "no spool";
}

describe.each([1, 2])("in pass %i, the examples of", { timeout: DOCUMENT_MS }, (pass) => {
  test.each(DOCUMENTS)("%s work", async (path) => {
    const terminal = new Terminal(join(folder, `${pass}-${dirname(path).replaceAll("/", "-")}`));
    if (path === "services/runner/README.md") terminal.writeSettings(settingsIn(path));
    const printed = [...(PRINTED[path] ?? [])];
    for (const { language, text } of blocksOf(path)) {
      if (language === "ts") {
        expect(await terminal.runProgram(text), text).toMatch(
          printed.shift() ?? /a program without an expectation/,
        );
        continue;
      }
      for (const documented of commandsOf(text)) {
        const { command } = documented;
        if (command in TRIED_BY) notRun.add(command);
        else await terminal.run(documented);
      }
    }
    expect(printed).toEqual([]);
  });
});

test("every line that another test runs is in a document, and that test exists", () => {
  expect([...notRun].toSorted()).toEqual(Object.keys(TRIED_BY).toSorted());
  expect(Object.values(TRIED_BY).filter((path) => !existsSync(join(projectRoot, path)))).toEqual([]);
});
