// `fleet completion`: prints the script with which a shell completes this command.

import { Argument, type Command } from "commander";
import type { Shell } from "../../rendering/completion/shell-scripts.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";

export function addCompletion(program: Command, action: ActionFactory): void {
  const command = program
    .command("completion")
    .description("Print the completion script of a shell.")
    .addArgument(
      new Argument("<shell>", "bash, zsh or fish").choices(["bash", "zsh", "fish"] satisfies Shell[]),
    )
    .action(action((session, shell: Shell) => completion(session, shell, program)));
  withExamples(command, () => ({
    "In ~/.bashrc": "source <(fleet completion bash)",
    "In ~/.zshrc, after compinit": "source <(fleet completion zsh)",
    "In ~/.config/fish/config.fish": "fleet completion fish | source",
  }));
}

async function completion(session: Session, shell: Shell, program: Command): Promise<void> {
  const [{ commandWords }, { completionScript }] = await Promise.all([
    import("../../rendering/completion/command-words.ts"),
    import("../../rendering/completion/shell-scripts.ts"),
  ]);
  const script = completionScript(shell, commandWords(program));
  await session.show({ shell, script }, () => script.trimEnd());
}
