/**
 * The programs in the settings, looked up before the first offer: a runner that can start no agent of a type would accept its tasks and
 * spend their attempts.
 */
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";
import type { RunnerAgent, RunnerSettings } from "../../shared/protocol/runner-settings.ts";
import type { ConfigProblem, Environment } from "../../shared/runtime/settings/config.ts";
import { agentInvocation } from "./profiles.ts";

/** Where the system searches without PATH. */
const PATH_DEFAULT = "/usr/bin:/bin";
const HAS_PLACEHOLDER = /\{[a-z_]+\}/;

/** One problem for each agent type whose program is not on this machine. `file`: the name of the settings file's variable. */
export function programProblems(
  { agents }: RunnerSettings,
  env: Environment,
  file: string,
): readonly ConfigProblem[] {
  return Object.entries(agents).flatMap(([type, agent]) => {
    const problem = problemOf(agent, env);
    if (problem === undefined) return [];
    const { field, ...rest } = problem;
    return [{ name: `${file}: agents.${type}.${field}`, ...rest }];
  });
}

type Problem = Omit<ConfigProblem, "name"> & { readonly field: string };

function problemOf(agent: RunnerAgent, env: Environment): Problem | undefined {
  // A Job has the programs of its image.
  if (agent.launcher === "kubernetes") return undefined;
  const tmux = agent.launcher === "tmux" ? missing("tmux", env.PATH, ".") : undefined;
  if (tmux !== undefined) return { field: "launcher", expected: "tmux to be installed", got: tmux };
  const [program = ""] = agentInvocation(agent).command;
  const path = agent.env.PATH ?? env.PATH;
  const cwd = agent.cwd ?? ".";
  const isRelative = program.includes("/") && !program.startsWith("/");
  // Only an offer fills in the placeholders.
  if (HAS_PLACEHOLDER.test(`${program} ${path ?? ""} ${isRelative ? cwd : ""}`)) return undefined;
  const got = missing(program, path, cwd);
  const field = agent.command === undefined ? "profile" : "command";
  return got === undefined ? undefined : { field, expected: "a program of this machine", got };
}

/** Why the program cannot be started, in words; undefined if it can. */
function missing(program: string, path: string | undefined, cwd: string): string | undefined {
  if (program.includes("/")) return obstacle(resolve(cwd, program));
  const folders = (path ?? PATH_DEFAULT).split(delimiter).map((folder) => resolve(cwd, folder));
  if (folders.some((folder) => obstacle(join(folder, program)) === undefined)) return undefined;
  return `${program}, which is in no folder of PATH`;
}

function obstacle(path: string): string | undefined {
  try {
    if (!statSync(path).isFile()) return `${path}, which is not a file`;
    accessSync(path, constants.X_OK);
    return undefined;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === "EACCES" ? `${path}, which may not be executed` : `${path}, which does not exist`;
  }
}
