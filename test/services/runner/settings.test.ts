/** The runner's settings file: missing values have defaults, and all mistakes are reported at once. */
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { type LaunchContext, launchSpec } from "../../../services/runner/command.ts";
import { readRunnerConfig, readRunnerSettings } from "../../../services/runner/config.ts";
import type { AgentRecord } from "../../../services/runner/journal.ts";
import { agentInvocation } from "../../../services/runner/profiles.ts";
import { LAUNCHERS, PROFILES } from "../../../shared/protocol/runner-settings.ts";
import { ConfigError } from "../../../shared/runtime/settings/config.ts";
import { scratch } from "./launcher-bench.ts";

const root = scratch();
afterAll(() => rmSync(root, { recursive: true, force: true }));

let counter = 0;
function file(content: unknown): string {
  counter += 1;
  const path = join(root, `settings-${counter}.json`);
  writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
  return path;
}

function problems(content: unknown): Record<string, string> {
  try {
    readRunnerSettings(file(content));
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return Object.fromEntries(
      error.problems.map(({ name, expected }) => [name.replace("FLEET_RUNNER_CONFIG: ", ""), expected]),
    );
  }
  throw new Error("the settings were accepted");
}

describe("the file", () => {
  test("requires little more than the agent types", () => {
    const settings = readRunnerSettings(
      file({
        agents: { implementation: { profile: "claude-code" }, qa: { command: ["./qa", "{task_id}"] } },
      }),
    );
    expect(settings).toMatchObject({ max_agents: 4, on_stop: "stop", grace_ms: 20_000 });
    expect(settings.agents.qa).toMatchObject({ profile: "command", launcher: "process", max_agents: 2 });
  });

  test("with several mistakes yields all of them", () => {
    const found = problems({
      max_agents: 0,
      on_stop: "kill",
      agents: {
        implementation: { profile: "claude" },
        qa: { launcher: "kubernetes", command: ["qa", "{tasks}"] },
        docs: {},
        ops: { command: ["ops"], prompt: "paste", exit_codes: { "3": "oops" }, max: 3 },
      },
    });
    expect(found).toMatchObject({
      max_agents: "at least 1",
      on_stop: "one of stop, leave",
      "agents.implementation.profile": "one of command, claude-code, codex, gemini",
      "agents.ops.exit_codes.3": expect.stringContaining("one of completed"),
    });
    expect(found["agents.qa.command.1"]).toContain("no {tasks}; there are {agent_id}");
    expect(Object.keys(found)).toContain("agents.ops.max");
  });

  test("with parts that contradict each other is refused", () => {
    expect(
      problems({
        agents: {
          a: {},
          b: { command: ["b"], launcher: "kubernetes" },
          c: { command: ["c"], prompt: "paste" },
          d: { command: ["d"], launcher: "tmux", prompt: "stdin" },
        },
      }),
    ).toEqual({
      "agents.a.command": "the program and its arguments, because the profile has none",
      "agents.b.kubernetes": "at least an image, because the launcher is kubernetes",
      "agents.c.prompt": "paste only with the launcher tmux",
      "agents.d.prompt": "stdin only with the launcher process",
    });
    expect(problems({ agents: {} })).toEqual({ agents: "at least one agent type" });
  });

  test("may name its schema, for editors", () => {
    const settings = { $schema: "./settings-runner.json", agents: { qa: { command: ["true"] } } };
    expect(readRunnerSettings(file(settings)).agents).toHaveProperty("qa");
  });

  test("that is missing or not JSON yields an error that says which", () => {
    expect(() => readRunnerSettings(join(root, "nowhere.json"))).toThrow(
      /a file that can be read; got .*ENOENT/,
    );
    expect(() => readRunnerSettings(file("{ agents: "))).toThrow(/expected JSON in/);
    expect(() => readRunnerConfig({})).toThrow(
      /FLEET_RUNNER_CONFIG: expected text \(File with the agents .*README\.md.*\); got nothing/,
    );
  });
});

describe("a program that is not on this machine", () => {
  const missing = (agents: object): Record<string, string> => {
    try {
      readRunnerConfig({ PATH: root, FLEET_RUNNER_CONFIG: file({ agents }) });
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      expect(error.exitCode).toBe(78);
      return Object.fromEntries(
        error.problems.map(({ name, got }) => [name.replace("FLEET_RUNNER_CONFIG: agents.", ""), got]),
      );
    }
    return {};
  };
  const program = (name: string, mode = 0o700): string => {
    writeFileSync(join(root, name), "#!/bin/sh\n", { mode });
    return join(root, name);
  };

  test("is refused at the start, for every agent type at once", () => {
    program("plain", 0o600);
    program("tmux");
    expect(
      missing({
        a: { profile: "claude-code" },
        b: { command: ["./nowhere"], cwd: root },
        c: { command: [program("text", 0o600)] },
        d: { command: [root] },
        e: { command: ["nowhere"], launcher: "tmux" },
        f: { profile: "codex", command: ["plain"] },
      }),
    ).toEqual({
      "a.profile": "claude, which is in no folder of PATH",
      "b.command": `${join(root, "nowhere")}, which does not exist`,
      "c.command": `${join(root, "text")}, which may not be executed`,
      "d.command": `${root}, which is not a file`,
      "e.command": "nowhere, which is in no folder of PATH",
      "f.command": "plain, which is in no folder of PATH",
    });
    rmSync(join(root, "tmux"));
    expect(missing({ a: { command: [process.execPath], launcher: "tmux" } })).toEqual({
      "a.launcher": "tmux, which is in no folder of PATH",
    });
  });

  test("is not looked up where only the offer or the image names it", () => {
    const bin = program("own-agent");
    expect(
      missing({
        a: { command: ["own-agent"] },
        b: { command: ["./own-agent"], cwd: root },
        c: { command: [bin], cwd: "/work-of/{tenant}" },
        d: { command: ["./agent"], cwd: "/work-of/{tenant}" },
        e: { command: ["/agents/{agent_type}"] },
        f: { command: ["elsewhere"], env: { PATH: "{folder}/bin" } },
        g: { profile: "gemini", launcher: "kubernetes", kubernetes: { image: "agent:1" } },
        h: { command: ["sh"], env: { PATH: "/bin:/usr/bin" } },
      }),
    ).toEqual({});
  });
});

const RECORD: AgentRecord = {
  agent_id: "qa-1",
  agent_type: "qa",
  tenant: "default",
  task_id: "US-003",
  handoff_id: "01900000-0000-7000-8000-000000000001",
  checkpoint_id: "01900000-0000-7000-8000-000000000002",
  offer_digest: "0".repeat(64),
  command_id: "01900000-0000-7000-8000-000000000003",
  launcher: "process",
  first_checkpoint_ms: 900_000,
  traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  created_at: "2026-01-01T00:00:00.000Z",
  state: "accepted",
  fence: 4,
  report: null,
};
const PATHS = {
  folder: "/agents/qa-1",
  prompt: "/agents/qa-1/prompt.md",
  startMessage: "/state/qa-1/start.md",
  checkpointMessage: "/agents/qa-1/message.md",
  exitNote: "/agents/qa-1/word.json",
  credentials: "/agents/qa-1/fleet.creds",
};
const CONTEXT = {
  url: "nats://127.0.0.1:4222",
  spoolDir: "/home/.fleet/spool",
  logBytes: 1_024,
  hasCredentials: true,
  env: {
    PATH: "/bin",
    KEY: "of the model",
    FLEET_OPS_PORT: "1",
    FLEET_FENCE: "1",
    TRACEPARENT: "of another",
  },
};

function specWith(agent: object, more: Partial<LaunchContext> = {}) {
  const { agents } = readRunnerSettings(file({ agents: { qa: agent } }));
  return launchSpec(RECORD, agents.qa!, PATHS, { ...CONTEXT, ...more });
}

describe("the launch specification", () => {
  test("has its placeholders filled in once, each within its own argument", () => {
    const spec = specWith({
      command: ["run", "--task={task_id}", "{agent_id} of {agent_type}", '{"a": {}}'],
      args: ["{prompt_file}", "{fence}"],
      env: { WHERE: "{folder}/x", BRACES: "{unknown}" },
      cwd: "/work-of/{tenant}",
    });
    expect(spec.argv).toEqual(["run", "--task=US-003", "qa-1 of qa", '{"a": {}}', PATHS.prompt, "4"]);
    expect(spec.env).toMatchObject({ WHERE: "/agents/qa-1/x", BRACES: "{unknown}" });
    expect(spec.cwd).toBe("/work-of/default");
  });

  test("has the runner's environment without its settings, and the variables of its task", () => {
    expect(specWith({ command: ["run"] }).env).toEqual({
      PATH: "/bin",
      KEY: "of the model",
      FLEET_NATS_CREDS: PATHS.credentials,
      FLEET_URL: "nats://127.0.0.1:4222",
      FLEET_SPOOL_DIR: "/home/.fleet/spool",
      FLEET_TENANT: "default",
      FLEET_AGENT_ID: "qa-1",
      FLEET_AGENT_TYPE: "qa",
      FLEET_TASK: "US-003",
      FLEET_FENCE: "4",
      FLEET_HANDOFF: RECORD.handoff_id,
      FLEET_CHECKPOINT: RECORD.checkpoint_id,
      FLEET_PROMPT_FILE: PATHS.prompt,
      FLEET_EXIT_FILE: PATHS.exitNote,
      TRACEPARENT: RECORD.traceparent,
    });
  });

  test("has the keys of this machine with their variables, which a pod does not have", () => {
    const keys = { FLEET_SPOOL_KEY: "file:/keys/new, env:FLEET_SPOOL_SECRET", FLEET_SPOOL_SECRET: "old" };
    const context = { env: { ...CONTEXT.env, ...keys, FLEET_OTHER_SECRET: "of the runner" } };
    const { env } = specWith({ command: ["run"] }, context);
    expect(env).toMatchObject(keys);
    expect(env).not.toHaveProperty("FLEET_OTHER_SECRET");
    const pod = { command: ["run"], launcher: "kubernetes", kubernetes: { image: "agent:1" } };
    expect(Object.keys(specWith(pod, context).env).filter((name) => name in keys)).toEqual([]);
  });

  test("has the authority of the bus, which is of no use in a pod", () => {
    const ca = { caFile: "/tls/ca.pem" };
    expect(specWith({ command: ["run"] }, ca).env).toMatchObject({ FLEET_NATS_CA: "/tls/ca.pem" });
    const pod = { command: ["run"], launcher: "kubernetes", kubernetes: { image: "agent:1" } };
    expect(specWith(pod, ca).env).not.toHaveProperty("FLEET_NATS_CA");
  });
});

test("every ready profile has a command and a prompt channel for every launcher", () => {
  for (const profile of PROFILES.filter((name) => name !== "command")) {
    for (const launcher of LAUNCHERS) {
      const kubernetes = launcher === "kubernetes" ? { image: "agent:1" } : undefined;
      const { agents } = readRunnerSettings(
        file({ agents: { qa: { profile, launcher, args: ["--extra"], ...(kubernetes && { kubernetes }) } } }),
      );
      const { command, prompt, instructions } = agentInvocation(agents.qa!);
      expect(command).toContain("--extra");
      expect(prompt).toBe({ process: "stdin", tmux: "paste", kubernetes: "file" }[launcher]);
      expect(instructions).toBe(true);
    }
  }
});

describe("the prompt in the system prompt of a program", () => {
  const invocation = (agent: object) => {
    const { agents } = readRunnerSettings(file({ agents: { qa: { profile: "claude-code", ...agent } } }));
    return agentInvocation(agents.qa!);
  };
  const option = ["--append-system-prompt-file", "{prompt_file}"];

  test("is a file in an option, and the channel carries the first message", () => {
    expect(invocation({})).toMatchObject({
      command: ["claude", "--print", ...option],
      prompt: "stdin",
      hasSystemPrompt: true,
    });
    expect(invocation({ launcher: "tmux" })).toMatchObject({
      command: ["claude", ...option],
      prompt: "paste",
    });
  });

  test("of a pod is added by its shell", () => {
    const { command } = invocation({ launcher: "kubernetes", kubernetes: { image: "agent:1" } });
    expect(command.slice(3)).toEqual(["agent", "claude", "--print"]);
    expect(command[2]).toBe(
      'exec "$@" --append-system-prompt-file "$FLEET_PROMPT_FILE" "Continue the task of your system prompt. Begin with its next action."',
    );
  });

  test("is the setting's decision, and by default not that of another command or channel", () => {
    expect(invocation({ system_prompt: false })).toMatchObject({
      command: ["claude", "--print"],
      hasSystemPrompt: false,
    });
    expect(invocation({ command: ["my-claude"] }).hasSystemPrompt).toBe(false);
    expect(invocation({ prompt: "stdin" }).hasSystemPrompt).toBe(false);
    expect(invocation({ command: ["my-claude"], system_prompt: true }).command).toEqual([
      "my-claude",
      ...option,
    ]);
    expect(invocation({ profile: "codex", system_prompt: true })).toMatchObject({
      command: ["codex", "exec", "-"],
      hasSystemPrompt: false,
    });
  });
});
