# Completion of the usher command, for bash.
_usher_options() {
  usher "$1" --help 2> /dev/null | sed -n 's/^  \(--[a-z-]*\).*/\1/p'
}
_usher() {
  local word=${COMP_WORDS[COMP_CWORD]} i
  COMPREPLY=()
  # NAME=LOCK and --option=value are three words to bash; the option is before the first, or is it.
  i=$COMP_CWORD
  [[ $word == '=' ]] && word= && ((i++))
  while ((i > 2)) && [[ ${COMP_WORDS[i - 1]} == '=' ]]; do ((i -= 2)); done
  local before=${COMP_WORDS[i - 1]}
  ((i < COMP_CWORD)) && [[ ${COMP_WORDS[i]} == --* ]] && before=${COMP_WORDS[i]}
  # Words after "--", or from the first word that is no option on, belong to another command.
  for ((i = 2; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} == -- ]]; then
      if declare -F _command_offset > /dev/null; then _command_offset $((i + 1)); fi
      return
    fi
  done
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "list run try status stat record predict check sim bench help --help --version" -- "$word")
    return
  fi
  case $before in
    --lock)
      mapfile -t COMPREPLY < <(compgen -W "$(usher list --json 2> /dev/null | sed -n 's/.*"name": "\(.*\)",/\1/p')" -- "$word")
      return ;;
    --locks)  # a list: completes the part after the last comma
      local head=
      [[ $word == *,* ]] && head=${word%,*},
      mapfile -t COMPREPLY < <(compgen -P "$head" -W "$(usher list --json 2> /dev/null | sed -n 's/.*"name": "\(.*\)",/\1/p')" -- "${word##*,}")
      return ;;
    --json | --show | --chart | --pprof | --folded) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
    --colour | --color) mapfile -t COMPREPLY < <(compgen -W "auto always never" -- "$word"); return ;;
    --forms) mapfile -t COMPREPLY < <(compgen -W "plain spin park" -- "$word"); return ;;
    --scheduler) mapfile -t COMPREPLY < <(compgen -W "random bound full" -- "$word"); return ;;
    --machine | --like) mapfile -t COMPREPLY < <(compgen -f -W "$(usher sim --list 2> /dev/null | sed -n '/^Machines/,$s/^    \([^ ]*\) .*/\1/p')" -- "$word"); return ;;
    --log) mapfile -t COMPREPLY < <(compgen -W "x y xy none" -- "$word"); return ;;
    --title | --size) return ;;
    --csv | --merge | --machine-from-lstopo) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
    -o | --output) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
    --placement) mapfile -t COMPREPLY < <(compgen -W "compact scattered even random" -- "$word"); return ;;
    --spin) mapfile -t COMPREPLY < <(compgen -W "auto" -- "$word"); return ;;
    --chart-metric)
      mapfile -t COMPREPLY < <(compgen -W "throughput latency latency-p99 latency-longest hand-over lwss mttr utilisation gini cpus switches misses" -- "$word")
      return ;;
    --role | --halve | --split | --lines | --seeds | --jitter | --ms | --seconds | --set | --set-machine | --vary | --point | --trace) return ;;
    --threads) mapfile -t COMPREPLY < <(compgen -W "2 3 4" -- "$word"); return ;;
    --executions | --seed | --scenario | --replay | --differences | --programs | --acquisitions | --weaken-at | --jobs) return ;;
    -p | --pid) mapfile -t COMPREPLY < <(compgen -W "$(pgrep -u "$EUID" 2> /dev/null)" -- "$word"); return ;;
    --top | --duration | --objects) return ;;
    --before | --until | --ready | --metric | --budget | --rounds | --warmup | --seed | --timeout | --cond-append | --sem-append | --rwlock | --rwlocks) return ;;
  esac
  [[ ${COMP_WORDS[1]} == sim && $before == --* ]] && usher sim --help 2> /dev/null | grep -q "^  $before [A-Z]" && return
  local options
  case ${COMP_WORDS[1]} in
    list)
      options="--all --json --help"
      [[ $word == -* ]] || options=$(usher list --json 2> /dev/null | sed -n 's/.*"name": "\(.*\)",/\1/p') ;;
    status)
      options="--help"
      [[ $word == -* ]] || options=$(pgrep -u "$EUID" 2> /dev/null) ;;
    help)
      options="list run try status stat record predict check sim bench"
      ((COMP_CWORD > 2)) && options= && [[ ${COMP_WORDS[2]} == sim ]] && options="calibrate validate" ;;
    run) options="--lock --rwlock --cond-append --sem-append --print-env --quiet --help --" ;;
    try) options="--locks --rwlocks --all --budget --rounds --warmup --seed --metric --lower --higher --before --until --ready --timeout --details --markdown --json --show --plot --colour --quiet --help --" ;;
    stat) options="--lock --pid --top --duration --until --details --hold-times --trust-filter --objects --json --pprof --folded --output --help --" ;;
    record) options="--lock --threads-are --windows --length --every --events --duration --names --output --help --" ;;
    predict)
      options="--machine --locks --threads --role --halve --split --lines --seeds --ms --set-machine --no-unknowns --json --chart --title --size --log --details --timeout --jobs --point --quiet --help"
      [[ $word == -* ]] || { mapfile -t COMPREPLY < <(compgen -f -- "$word"); return; } ;;
    check)
      options="--all --mutants --list --threads --executions --seed --scenario --forms --replay --scheduler --differences --programs --acquisitions --weaken --weaken-at --jobs --json --show --quiet --help"
      [[ $word == -* ]] || options="mutants $(usher list --json 2> /dev/null | sed -n 's/.*"name": "\(.*\)",/\1/p')" ;;
    sim)
      options="$(_usher_options sim) --help"
      if ((COMP_CWORD > 2)) && [[ ${COMP_WORDS[2]} == calibrate ]]; then
        options="--output --help"
      elif ((COMP_CWORD > 2)) && [[ ${COMP_WORDS[2]} == validate ]]; then
        options="--machine --set-machine --spin --locks --threads --pinned --seconds --rounds --seeds --json --quiet --help"
      elif [[ $word != -* ]]; then
        options="$(usher sim --list 2> /dev/null | sed -n '/^Machines/q; s/^\([a-z-]*\):.*/\1/p') calibrate validate"
      fi ;;
    bench)
      options="--locks --threads --rounds --seconds --pinned --set --json --csv --chart --chart-metric --title --size --log --log-x --log-y --details --timeout --list --list-points --point --merge --mixed --quiet --help"
      [[ $word == -* ]] || options=$(usher bench --list 2> /dev/null | sed -n '/^This/q; s/^\([a-z-]*\):.*/\1/p') ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
}
complete -F _usher usher
