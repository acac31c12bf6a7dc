/** A newcomer at a terminal: commands in folders of an own project, with the installed package and nothing of this checkout. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect } from "vitest";
import { projectRoot } from "../../harness/project-root.ts";

const UP = { timeout: 60_000 };
const COMMAND_MS = 90_000;

interface Answer {
  readonly exit: number | null;
  readonly out: string;
  readonly err: string;
}

interface Running {
  readonly output: () => string;
  /** Resolves with the exit code. */
  readonly stop: () => Promise<number | null>;
}

export class Newcomer {
  readonly #project: string;
  readonly #env: Record<string, string>;
  readonly #running: ChildProcess[] = [];

  /** @param project the folder in which the package is installed. */
  constructor({ project, node, natsServer }: { project: string; node: string; natsServer: string }) {
    this.#project = project;
    const home = this.folder("home");
    this.#env = {
      HOME: home,
      PATH: [join(project, "node_modules/.bin"), dirname(node), "/usr/bin", "/bin"].join(":"),
      FLEET_NATS_SERVER: natsServer,
    };
  }

  /** A new folder below the project. */
  folder(name: string): string {
    const path = join(this.#project, "newcomer", name);
    mkdirSync(path, { recursive: true });
    return path;
  }

  /** Types a command line in a folder. */
  type(folder: string, line: string, env: Record<string, string> = {}): Answer {
    const options = {
      cwd: folder,
      env: { ...this.#env, ...env },
      encoding: "utf8",
      timeout: COMMAND_MS,
    } as const;
    const { status, stdout, stderr } = spawnSync("/bin/sh", ["-c", line], options);
    return { exit: status, out: stdout, err: stderr };
  }

  json(folder: string, line: string) {
    const { exit, out, err } = this.type(folder, `${line} --json`);
    expect({ exit, err }, line).toEqual({ exit: 0, err: "" });
    return JSON.parse(out);
  }

  /** `fleet up` in a folder, on free ports. */
  up(folder: string, options = ""): Promise<Running> {
    const env = { FLEET_NATS_PORT: "-1", FLEET_DISK_MIN_FREE: "8MiB" };
    return this.start(folder, `exec fleet up ${options}`, "Fleet is up", env);
  }

  /** Starts a program, and resolves when it has printed that it is ready. */
  async start(
    folder: string,
    line: string,
    ready: string,
    env: Record<string, string> = {},
  ): Promise<Running> {
    const child = spawn("/bin/sh", ["-c", line], {
      cwd: folder,
      env: { ...this.#env, FLEET_OPS_PORT: "0", FLEET_GATEWAY_PORT: "-1", ...env },
      detached: true,
    });
    this.#running.push(child);
    const ended = once(child, "exit");
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk: Buffer) => {
        output += chunk.toString();
      });
    await expect.poll(() => output, UP).toContain(ready);
    const stop = async () => {
      child.kill("SIGTERM");
      return (await ended)[0] as number | null;
    };
    return { output: () => output, stop };
  }

  /** Compiles a TypeScript program in a folder with the settings that the manual names. */
  compile(folder: string, name: string, source: string): void {
    writeFileSync(join(folder, `${name}.ts`), source);
    writeFileSync(join(folder, "package.json"), '{ "type": "module" }\n');
    const compilerOptions = { strict: true, module: "nodenext", target: "es2022", types: ["node"] };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: [`${name}.ts`] }));
    const compiler = join(projectRoot, "node_modules/typescript/bin/tsc");
    const { status, stdout } = spawnSync(process.execPath, [compiler], { cwd: folder, encoding: "utf8" });
    expect({ status, stdout }).toEqual({ status: 0, stdout: "" });
  }

  /** Ends what a failed test has left. */
  leave(): void {
    for (const { pid } of this.#running) killGroup(pid!);
    rmSync(join(this.#project, "newcomer"), { recursive: true, force: true });
  }
}

/** The program and all that it has started. */
function killGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}

/** An example of a manual, as it reads in a project that has installed the package. */
export function example(manual: string, heading: string): string {
  const text = readFileSync(join(projectRoot, manual), "utf8");
  const section = text.slice(text.indexOf(`\n## ${heading}\n`));
  const code = /```ts\n([\s\S]*?)```/.exec(section)?.[1];
  if (code === undefined) throw new Error(`${manual} has no example below ${heading}`);
  return code
    .replaceAll('"./services/standalone/embedded/embedded-fleet.ts"', '"fleet/testing"')
    .replaceAll('"./shared/sdk/sdk.ts"', '"fleet"');
}
