# Completion of kdump's commands, options and values for fish; `kdump completion fish` prints it.
# Where kdump has nothing to offer, fish offers files.

function __kdump_complete
    set -l current (commandline -ct)
    set -l words (commandline -cpo)
    set -l line (commandline -cp | string collect)
    set -l answer (env COMP_WORDS=$line COMP_CWORD=$current _KDUMP_COMPLETE=fish_complete $words[1] 2>/dev/null)
    set -l offered (string replace -rf '^plain,' '' -- $answer)
    if string match -q 'dir,*' -- $answer
        __fish_complete_directories $current
    else if set -q offered[1]
        printf '%s\n' $offered
    else
        __fish_complete_path $current
    end
end

complete --command kdump --no-files --arguments '(__kdump_complete)'
