// The scripts with which shells complete the `fleet` command. They hold all words, so that a key press starts no process.
// Each follows the typed words from command to command, then suggests what may follow the last one.

import type { CommandWords, Word } from "./command-words.ts";

export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

export function completionScript(shell: Shell, words: readonly CommandWords[]): string {
  return { bash, zsh, fish }[shell](words);
}

/** In single quotes, for bash and zsh. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** "checkpoint create" is the step from `checkpoint` over the word `create`; a command of the program begins with a space. */
const stepsOf = (words: readonly CommandWords[]): string[] =>
  words.filter(({ path }) => path !== "").map(({ path }) => (path.includes(" ") ? path : ` ${path}`));

const texts = (words: readonly Word[]): string => words.map(({ text }) => text).join(" ");

function bash(words: readonly CommandWords[]): string {
  const cases = words.map(
    ({ path, commands, options }) =>
      `    ${quoted(path)}) commands=${quoted(texts(commands))} options=${quoted(texts(options))} ;;`,
  );
  return `# Completion of fleet for bash: source <(fleet completion bash)
_fleet() {
  local current="\${COMP_WORDS[COMP_CWORD]}" path="" commands="" options="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$path \${COMP_WORDS[i]}" in
    ${stepsOf(words).map(quoted).join(" | ")}) path="\${path:+$path }\${COMP_WORDS[i]}" ;;
    esac
  done
  case "$path" in
${cases.join("\n")}
  esac
  if [[ $current == -* ]]; then commands=$options; fi
  COMPREPLY=($(compgen -W "$commands" -- "$current"))
}
complete -o default -F _fleet fleet
`;
}

function zsh(words: readonly CommandWords[]): string {
  // A colon would end the word.
  const described = (found: readonly Word[]): string =>
    found.map(({ text, description }) => quoted(`${text.replaceAll(":", "\\:")}:${description}`)).join(" ");
  const cases = words.map(
    ({ path, commands, options }) =>
      `    ${quoted(path)}) commands=(${described(commands)}) options=(${described(options)}) ;;`,
  );
  return `#compdef fleet
# Completion of fleet for zsh: source <(fleet completion zsh)
_fleet() {
  local route="" word
  local -a commands options
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "$route $word" in
    ${stepsOf(words).map(quoted).join(" | ")}) route="\${route:+$route }$word" ;;
    esac
  done
  case "$route" in
${cases.join("\n")}
  esac
  if [[ $words[CURRENT] == -* ]]; then _describe option options
  elif (( $#commands )); then _describe command commands
  else _files
  fi
}
if [[ $funcstack[1] == _fleet ]]; then _fleet "$@"; else compdef _fleet fleet; fi
`;
}

function fish(words: readonly CommandWords[]): string {
  const lines = words.flatMap(({ path, commands, options }) => {
    const when = `complete -c fleet -n "test (__fleet_path) = '${path}'"`;
    return [
      ...commands.map(({ text, description }) => `${when} -f -a ${text} -d ${fishQuoted(description)}`),
      ...options.map(
        ({ text, description }) => `${when} -l ${text.replace(/^--/, "")} -d ${fishQuoted(description)}`,
      ),
    ];
  });
  return `# Completion of fleet for fish: fleet completion fish | source
function __fleet_path
  set -l path ""
  for word in (commandline -opc)[2..-1]
    switch "$path $word"
      case ${stepsOf(words).map(fishQuoted).join(" ")}
        set path (string trim -- "$path $word")
    end
  end
  echo "$path"
end
${lines.join("\n")}
`;
}

const fishQuoted = (text: string): string => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
