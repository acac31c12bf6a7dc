/**
 * Agent programs that are ready to use, as data: how each is called and how it takes a prompt. In a child process they run without a
 * person and read the prompt from standard input; in a tmux window they are what a person would have, and the prompt is pasted.
 */
import type { LauncherName, ProfileName, RunnerAgent } from "../../shared/protocol/runner-settings.ts";
import type { PromptChannel } from "./launchers/launcher.ts";

export interface Invocation {
  readonly command: readonly string[];
  readonly prompt: PromptChannel;
}

interface Profile {
  readonly ways: Readonly<Record<LauncherName, Invocation>>;
  /** Whether the program must be told how to write checkpoints, because nothing else tells it. */
  readonly instructions: boolean;
}

/** In a container nobody can write to the program, so a shell that stands in the image hands it the file; it reads no text of a task. */
const fromFile = (...command: string[]): Invocation => ({
  command: ["sh", "-c", 'exec "$@" < "$FLEET_PROMPT_FILE"', "agent", ...command],
  prompt: "file",
});

export const READY_PROFILES: Readonly<Record<Exclude<ProfileName, "command">, Profile>> = {
  "claude-code": {
    ways: {
      process: { command: ["claude", "--print"], prompt: "stdin" },
      tmux: { command: ["claude"], prompt: "paste" },
      kubernetes: fromFile("claude", "--print"),
    },
    instructions: true,
  },
  codex: {
    ways: {
      process: { command: ["codex", "exec", "-"], prompt: "stdin" },
      tmux: { command: ["codex"], prompt: "paste" },
      kubernetes: fromFile("codex", "exec", "-"),
    },
    instructions: true,
  },
  gemini: {
    ways: {
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

/** How agents of a type are called: the settings win over the profile. */
export function agentInvocation(agent: RunnerAgent): AgentInvocation {
  const { profile, launcher, command, args, prompt, instructions } = agent;
  const ready = profile === "command" ? undefined : READY_PROFILES[profile];
  const way = ready?.ways[launcher];
  return {
    command: [...(command ?? way?.command ?? []), ...args],
    prompt: prompt ?? way?.prompt ?? "file",
    instructions: instructions ?? ready?.instructions ?? false,
  };
}
