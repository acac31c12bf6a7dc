/**
 * The agent programs with a ready profile, as data: the command and the prompt channel of each. In a child process they run
 * non-interactively and read the prompt from standard input; in a tmux window they run interactively, and the prompt is pasted.
 */
import type { LauncherName, ProfileName, RunnerAgent } from "../../shared/protocol/runner-settings.ts";
import type { PromptChannel } from "./launchers/launcher.ts";

export interface Invocation {
  readonly command: readonly string[];
  readonly prompt: PromptChannel;
}

interface Profile {
  readonly invocations: Readonly<Record<LauncherName, Invocation>>;
  /** True if the prompt must explain how to write checkpoints, because the program does not know it. */
  readonly instructions: boolean;
}

/** No runner can write to a program in a container, so the image's shell redirects the file. The shell never reads text of a task. */
const fromFile = (...command: string[]): Invocation => ({
  command: ["sh", "-c", 'exec "$@" < "$FLEET_PROMPT_FILE"', "agent", ...command],
  prompt: "file",
});

export const READY_PROFILES: Readonly<Record<Exclude<ProfileName, "command">, Profile>> = {
  "claude-code": {
    invocations: {
      process: { command: ["claude", "--print"], prompt: "stdin" },
      tmux: { command: ["claude"], prompt: "paste" },
      kubernetes: fromFile("claude", "--print"),
    },
    instructions: true,
  },
  codex: {
    invocations: {
      process: { command: ["codex", "exec", "-"], prompt: "stdin" },
      tmux: { command: ["codex"], prompt: "paste" },
      kubernetes: fromFile("codex", "exec", "-"),
    },
    instructions: true,
  },
  gemini: {
    invocations: {
      process: { command: ["gemini"], prompt: "stdin" },
      tmux: { command: ["gemini"], prompt: "paste" },
      kubernetes: fromFile("gemini"),
    },
    instructions: true,
  },
};

export interface AgentInvocation extends Invocation {
  readonly instructions: boolean;
}

/** The invocation for an agent type: its settings take precedence over the profile. */
export function agentInvocation(agent: RunnerAgent): AgentInvocation {
  const { profile, launcher, command, args, prompt, instructions } = agent;
  const ready = profile === "command" ? undefined : READY_PROFILES[profile];
  const usual = ready?.invocations[launcher];
  return {
    command: [...(command ?? usual?.command ?? []), ...args],
    prompt: prompt ?? usual?.prompt ?? "file",
    instructions: instructions ?? ready?.instructions ?? false,
  };
}
